"""A verification as one HTML page that needs nothing else: no script, no font, no image from anywhere.

Text from data is escaped, control characters are shown as escapes; a content policy in the page forbids the rest.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources

from elf.agents.language.instants import instant
from elf.offline.verify.charts import steps_chart
from elf.offline.verify.report import WORDS, Difference, Report, WindowReport, shown_cell

#: Differences and windows that are listed; charts show all windows.
DIFFERENCES_MAX = 200
WINDOWS_MAX = 200
#: Characters of a cell.
CELL_MAX = 300
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report, made_ms: int) -> str:
    """Return the page.

    Args:
        report: what was found.
        made_ms: wall clock at which it was made, ms since 1970.
    """
    style = resources.files("elf.offline.verify").joinpath("report.css").read_text(encoding="utf-8")
    parts = [
        _head(report, made_ms),
        _charts([window for window in report.windows if not window.skipped]),
        _differences(report),
        _versions(report),
        _archive(report),
        _windows(report.windows, bool(report.versions)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(report.job)}, verified</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def text(value: object) -> str:
    """Escape text for HTML, also in attributes; control characters and marks of direction become visible."""
    shown = str(value)
    shown = shown if len(shown) <= CELL_MAX else shown[:CELL_MAX] + " …"
    return html.escape("".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in shown))


def _head(report: Report, made_ms: int) -> str:
    counts = report.counts
    state = "bad" if not report.passes else "good" if report.agrees else "known"
    cards = [
        ("windows compared", counts["windows"]),
        ("agree", counts["agreed"]),
        ("differences explained", counts["differences"] - counts["unexplained"]),
        ("differences unexplained", counts["unexplained"]),
        ("archived events", f"{report.archive_events:,}"),
        ("archive files", f"{report.archive_files:,}"),
    ]
    shown = "".join(f"<div><dt>{text(what)}</dt><dd>{text(count)}</dd></div>" for what, count in cards)
    return (
        f"<header>\n<h1>{text(report.job)}</h1>\n<p>Published windows beside what Spark computes from the archive, "
        f"{text(instant(made_ms // 1_000 * 1_000))}</p>\n</header>\n"
        f'<p class="verdict {state}">{text(report.verdict)}</p>\n<dl class="cards">{shown}</dl>\n'
    )


def _charts(windows: Sequence[WindowReport]) -> str:
    placed = [window for window in windows if window.end_ms is not None]
    if not placed:
        return ""
    accuracy = [(window.end_ms or 0, window.accuracy, _state(window), _told(window)) for window in placed]
    complete = [
        (
            window.end_ms or 0,
            window.reported / window.expected if window.expected else 1.0,
            "good" if window.reported >= window.expected else "known",
            f"{window.name}: {window.reported} of {window.expected} agents",
        )
        for window in placed
    ]
    return (
        "<section>\n<h2>Accuracy over time</h2>\n<p>Share of each window's cells that both sides have alike; "
        "amber: its label explains all that differs.</p>\n"
        f"{steps_chart(accuracy)}</section>\n"
        "<section>\n<h2>Completeness over time</h2>\n"
        "<p>Share of the expected agents that each window's result has.</p>\n"
        f"{steps_chart(complete)}</section>\n"
    )


def _differences(report: Report) -> str:
    found = [(window, each) for window in report.windows for each in window.differences]
    if not found:
        return "<section>\n<h2>Differences</h2>\n<p>None.</p>\n</section>\n"
    found.sort(key=lambda pair: (bool(pair[1].why), -_weight(pair[1])))
    rows = [
        _row(
            _short(window),
            WORDS.get(each.kind, each.kind),
            ", ".join(f"{name} = {value}" for name, value in each.key.items()),
            each.column,
            shown_cell(each.online),
            shown_cell(each.offline),
            ", ".join(f"{agent}: {count}" for agent, count in each.agents.items()),
            each.why or "unexplained",
            state="known" if each.why else "bad",
        )
        for window, each in found[:DIFFERENCES_MAX]
    ]
    rest = len(found) - len(rows)
    more = f"<p>And {rest} more; <code>elf verify --json</code> has all.</p>\n" if rest else ""
    heads = ("window (UTC)", "what", "key", "column", "published", "Spark", "events of the key", "explanation")
    return f"<section>\n<h2>Top differences</h2>\n{_table(heads, rows)}{more}</section>\n"


def _versions(report: Report) -> str:
    if not report.versions:
        return ""
    rows = [
        _row(
            each.version,
            each.what,
            "" if each.since_ms is None else instant(each.since_ms),
            "" if each.until_ms is None else instant(each.until_ms),
            each.windows,
            " ".join(each.query.split()),
            state="good" if each.windows else "skipped",
        )
        for each in report.versions
    ]
    heads = ("version", "by", "counts from", "until", "windows compared", "query")
    return f"<section>\n<h2>Versions of the job</h2>\n{_table(heads, rows)}</section>\n"


def _archive(report: Report) -> str:
    found = [("bad", damage) for damage in report.damaged] + [("known", gap) for gap in report.gaps]
    if not found:
        return ""
    listed = "".join(f'<li class="{state}">{text(said)}</li>\n' for state, said in found)
    return f"<section>\n<h2>The archive</h2>\n<ul>\n{listed}</ul>\n</section>\n"


def _windows(windows: Sequence[WindowReport], changed: bool) -> str:
    notable = [window for window in windows if window.differences or window.skipped or window.label or window.notes]
    shown = (windows if len(windows) <= WINDOWS_MAX else notable)[:WINDOWS_MAX]
    rows = [
        _row(
            _short(window),
            *([window.version] if changed else []),
            window.status.replace("_", " "),
            f"{window.reported} of {window.expected}",
            window.rows_online,
            "" if window.skipped else window.rows_offline,
            window.skipped or f"{window.accuracy:.4%}",
            "; ".join([*window.notes, *window.label]),
            state=_state(window),
        )
        for window in shown
    ]
    rest = len(windows) - len(rows)
    more = f"<p>And {rest} more.</p>\n" if rest else ""
    version = ["version"] if changed else []
    heads = ("window (UTC)", *version, "status", "agents", "rows", "Spark's rows", "accuracy", "label")
    return f"<section>\n<h2>Windows</h2>\n{_table(heads, rows)}{more}</section>\n"


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{text(each)}</th>" for each in heads)
    body = "".join(rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def _row(*cells: object, state: str) -> str:
    return f'<tr class="{state}">' + "".join(f"<td>{text(cell)}</td>" for cell in cells) + "</tr>\n"


def _short(window: WindowReport) -> str:
    """Write a window's time with the date once, where it ends on the day it began."""
    start, _, end = window.name.replace("T", " ").replace("Z", "").partition("/")
    return f"{start} to {end[11:] if end[:10] == start[:10] else end}" if end else window.name


def _state(window: WindowReport) -> str:
    if window.skipped:
        return "skipped"
    return "bad" if window.unexplained else "known" if window.differences else "good"


def _told(window: WindowReport) -> str:
    count = len(window.differences)
    return f"{window.name}: {window.accuracy:.2%}, {count} difference{'s' * (count != 1)}"


def _weight(difference: Difference) -> float:
    """How far a cell is off, of its size; a row that one side lacks weighs most."""
    online, offline = difference.online, difference.offline
    if isinstance(online, int | float) and isinstance(offline, int | float):
        return abs(online - offline) / max(abs(online), abs(offline), 1e-300)
    return 2.0
