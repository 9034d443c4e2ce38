"""Pushes over connections that die, to an agent that is killed: each event counts once."""

import pathlib

from tests.system.pushing import push_all, wanted


def test_each_event_counts_once_whatever_dies(tmp_path: pathlib.Path) -> None:
    found, endings = push_all(tmp_path, events=12_000, kills=3, batch=40, pushers=4, seed=7)
    assert found == wanted(12_000)
    assert endings["cut"] and endings["unanswered"] and endings["refused"]
