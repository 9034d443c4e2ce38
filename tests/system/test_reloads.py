"""Settings that are changed while an agent reads, and is killed: each line counts once, and no file stays open."""

import pathlib

from tests.system.reloading import reload_often, wanted


def test_each_line_counts_once_whatever_is_changed(tmp_path: pathlib.Path) -> None:
    found, told = reload_often(tmp_path, reloads=24, kills=2, lines=4_000, seed=5)
    assert found == wanted(4_000)
    assert told["refused"] and told["taken"] and told["kills"] == 2
    assert told["descriptors"] < 60
