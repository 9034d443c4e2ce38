"""The report as a page: self-contained, escaped, and with what matters first."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from elf.offline.verify.charts import BARS_MAX, steps_chart, worst_of
from elf.offline.verify.html import page, text
from elf.offline.verify.report import Difference, Report, WindowReport

EVIL = '<script src="http://evil/x.js">alert(1)</script>\x1b[2J\u202e'


class Tags(HTMLParser):
    """Collects elements, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def window(start_ms: int, *differences: Difference, **more: object) -> WindowReport:
    known = {"rows_online": 10, "rows_offline": 10, "width": 2, "expected": 3, "reported": 3, "status": "final"}
    return WindowReport(start_ms=start_ms, end_ms=start_ms + 1_000, differences=list(differences), **(known | more))  # type: ignore[arg-type]


def report() -> Report:
    cell = Difference(kind="cell", key={"product": EVIL}, column=EVIL, online=EVIL, offline=7, agents={EVIL: 3})
    known = Difference(kind="missing_online", key={"product": "b"}, offline={"product": "b"}, why="missing web-2")
    windows = [
        window(0, known, status="final_incomplete", reported=2, label=[EVIL]),
        window(1_000, cell),
        window(2_000),
    ]
    return Report(job=EVIL, windows=windows, damaged=[EVIL], gaps=["web-9 has none"], archive_files=2, archive_events=9)


def test_nothing_of_the_data_is_markup_and_nothing_is_fetched() -> None:
    shown = page(report(), 5_000)
    tags = Tags()
    tags.feed(shown)
    assert tags.open == [], "every element is closed"
    names = {tag for tag, _ in tags.found}
    assert "script" not in names and not names & {"link", "img", "iframe", "object"}
    assert not any(name in ("src", "href") or name.startswith("on") for _, attrs in tags.found for name in attrs)
    assert not re.search(r"url\(|@import", shown)
    assert any("default-src 'none'" in (attrs.get("content") or "") for _, attrs in tags.found)
    assert "\x1b" not in shown and "\u202e" not in shown and "\\u001b" in shown
    assert any("alert(1)" in said for said in tags.texts), "it is shown as text"


def test_what_nothing_explains_comes_first() -> None:
    shown = page(report(), 5_000)
    table = shown[shown.index("Top differences") : shown.index("The archive")]
    assert table.index("unexplained") < table.index("missing web-2")
    assert "the archive is damaged: 1 of 2 files" in shown and "web-9 has none" in shown
    assert shown.count("<rect") == 6, "two charts of three windows"
    assert "2 of 3 agents" in shown


def test_a_page_of_agreement() -> None:
    shown = page(Report(job="a/b", windows=[window(0)], archive_files=1, archive_events=5), 0)
    assert 'class="verdict good"' in shown and "<p>None.</p>" in shown


@given(st.text())
def test_text_is_printable_and_has_no_markup(value: str) -> None:
    shown = text(value)
    assert not set(shown) & set("<>\"'") and shown.isprintable()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=1_000))
def test_many_windows_share_bars_and_the_worst_is_seen(shares: list[float]) -> None:
    points = [(at, share, "good" if share == 1 else "bad", "") for at, share in enumerate(shares)]
    bars = worst_of(points, BARS_MAX)
    assert len(bars) <= BARS_MAX and min(bar[1] for bar in bars) == min(shares)
    drawn = steps_chart(points)
    heights = [float(height) for height in re.findall(r'height="([0-9.]+)"><title', drawn)]
    assert len(heights) == len(bars) and all(2 <= height <= 180 for height in heights)


def test_accuracy_counts_cells_and_whole_rows() -> None:
    cell = Difference(kind="cell", online=1, offline=2)
    row = Difference(kind="missing_online", offline={})
    assert window(0).accuracy == 1
    assert window(0, cell).accuracy == 1 - 1 / 20
    assert window(0, row).accuracy == 1 - 2 / 20
    assert window(0, *[row] * 30).accuracy == 0
