"""What a follower is sent where commits come between: the windows that are still there."""

import pathlib
from typing import Any

import msgspec
import pytest

from elf.agents.master.announcement import news_with_results
from elf.agents.master.windows import Windows
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from tests.agents.master.roots import Root
from tests.agents.plans import plan_of


def test_a_window_that_expires_meanwhile_is_not_told_of(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "state.db")
    root = Root(Panes(database), plan_of(options='retain = "8s"'))
    for number in range(9):
        root.commit(number, [(number * 2_000, "a")])
    known, oldest = root.master.windows.edition, (root.master.windows.expired + 1) * 2_000
    root.commit(9, [(18_000, "a"), (oldest + 700, "late")])
    news = Windows.news

    def overtaken(windows: Windows, *args: Any) -> Any:
        found = news(windows, *args)
        root.commit(10, [(20_000, "a")])
        root.commit(11, [(22_000, "a")])
        return found

    monkeypatch.setattr(Windows, "news", overtaken)
    edition, results = news_with_results(root.master.windows, known, 18_000, str.upper, msgspec.to_builtins)
    assert (edition, [each["window"]["end_ms"] for each in results]) == (known + 1, [20_000])
    database.close()
