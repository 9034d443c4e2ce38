"""What people read of a result, and below it."""

import pytest

from elf.agents.wire.result import Completeness
from elf.cli.output import console, describe_completeness, describe_time, table_of


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Completeness(expected=3, reported=3, status="final"), "final · 3 of 3 agents"),
        (
            Completeness(expected=3, reported=2, missing=["web3"], status="final_incomplete"),
            "final, but incomplete · whole from 2 of 3 agents · some or all missing of web3",
        ),
        (
            Completeness(
                expected=1,
                reported=1,
                rejected=3,
                rejected_of=40,
                mistyped={"n": 2},
                causes=["lines", "types"],
                status="final_incomplete",
            ),
            "final, but incomplete · 1 of 1 agents · 3 rejected lines of 40 · 2 values of n do not fit",
        ),
        (
            Completeness(expected=3, reported=1, missing=["web2", "web3"], status="partial", side="web1", term=4),
            "partial · side of web1, term 4 · whole from 1 of 3 agents · some or all missing of web2, web3",
        ),
    ],
)
def test_the_line_below_a_result_says_whose_it_is_and_what_is_missing(known: Completeness, text: str) -> None:
    assert describe_completeness(known) == text
    assert known.complete == (known.status == "final")


def test_names_cannot_rewrite_the_screen() -> None:
    known = Completeness(expected=2, reported=1, missing=["\x1b[2J"], status="partial", side="\x1b[2J")
    assert "\x1b" not in describe_completeness(known)


def test_a_time_of_any_year_is_shown() -> None:
    assert describe_time(60_000) == "1970-01-01 00:01:00 UTC"
    assert describe_time(1 << 62) == "+146140482-04-24 15:36:27 UTC"


def test_numbers_are_not_folded_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["/a/long/path" * 9, 123_456_789_012_345, 99_999_999_999], ["/b", 1, None]]

    def shown(width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        shell = console()
        with shell.capture() as captured:
            shell.print(table_of(["path", "cents", "n"], rows))
        return captured.get()

    assert "123456789012345   99999999999" in shown(60)
    # Where numbers would leave texts nothing, all columns give way.
    assert "123456789012345" not in shown(30) and "/a/lo" in shown(30)
