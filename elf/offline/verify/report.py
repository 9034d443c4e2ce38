"""What a verification found, for people and for programs. No comparing here (see `elf.offline.verify.compare`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.console import Group as RenderGroup
from rich.table import Table
from rich.text import Text

from elf.agents.language.instants import instant
from elf.client.results import Version

#: Differences printed on a terminal; JSON has all.
SHOWN_MAX = 50
#: What kinds of differences are called.
WORDS = {
    "missing_online": "only Spark has it",
    "missing_offline": "only published",
    "label": "the label does not say it",
}


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One disagreement between the published window and Spark's."""

    #: cell | missing_online | missing_offline | order | columns | label
    kind: str
    #: Key columns and their values: which row.
    key: dict[str, Any] = {}
    column: str = ""
    #: What was published and what Spark computed: a cell's values, or whole rows.
    online: Any = None
    offline: Any = None
    #: How what the label says accounts for it; empty if it does not.
    why: str = ""
    #: Agent -> events of this key in its archive, and the files that hold them; of the first differences only.
    agents: dict[str, int] = {}
    files: list[str] = []

    @property
    def identity(self) -> tuple[str, str, str]:
        """Which cell or row it is about, whatever the values."""
        return self.kind, repr(sorted(self.key.items())), self.column


class WindowReport(msgspec.Struct, frozen=True, kw_only=True):
    """One window, compared."""

    start_ms: int | None
    end_ms: int | None
    #: The label it was published with.
    status: str
    rows_online: int
    rows_offline: int
    #: Columns of the result.
    width: int = 0
    #: Agents expected and reported, as its label has it.
    expected: int = 0
    reported: int = 0
    differences: list[Difference] = []
    #: What need not worry: "tie at the cut", and what the label says is missing.
    notes: list[str] = []
    #: Parts of the label that announce an incomplete answer: "late 3", "missing web-2".
    label: list[str] = []
    #: Why it was not compared; empty if it was.
    skipped: str = ""
    #: The version of the job that counted it; None from an agent that does not tell.
    version: int | None = None

    @property
    def agrees(self) -> bool:
        """Whether the window was compared and all cells agree."""
        return not self.skipped and not self.differences

    @property
    def unexplained(self) -> list[Difference]:
        """The differences that its label does not account for."""
        return [each for each in self.differences if not each.why]

    @property
    def accuracy(self) -> float:
        """Share of its cells, of those that either side has, that are the same on both."""
        cells = max(self.rows_online, self.rows_offline) * max(1, self.width)
        wrong = sum(1 if each.kind in ("cell", "order", "label") else max(1, self.width) for each in self.differences)
        return 1.0 if not wrong else max(0.0, 1 - wrong / max(cells, wrong))

    @property
    def name(self) -> str:
        """The window as START/END in UTC, for people."""
        if self.end_ms is None:
            return "since the start"
        start = "start" if self.start_ms is None else instant(self.start_ms)
        return f"{start}/{instant(self.end_ms)}"


class VersionReport(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a job that was changed, and how many windows that it counted were compared by its definition."""

    version: int
    #: What made it: publish, update, rollback, reset, pause, resume or stop.
    what: str
    query: str
    #: The event time that it counts, half-open, and from which on its windows have any; None is no bound.
    since_ms: int | None
    until_ms: int | None
    begins_ms: int | None
    windows: int

    @property
    def text(self) -> str:
        """A line about it, for people."""
        since = "" if self.since_ms is None else f" from {instant(self.since_ms)}"
        until = "" if self.until_ms is None else f" until {instant(self.until_ms)}"
        windows = {0: "no window", 1: "1 window"}.get(self.windows, f"{self.windows} windows")
        return f"version {self.version} ({self.what}){since}{until}, {windows} compared: {' '.join(self.query.split())}"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All windows of one verification."""

    job: str
    windows: list[WindowReport]
    #: Archive files that are not what their agents wrote.
    damaged: list[str] = []
    #: Agents that results count, and hours of which the archive has nothing of theirs.
    gaps: list[str] = []
    archive_files: int = 0
    archive_events: int = 0
    #: Of a job that was changed: the versions that it remembers.
    versions: list[VersionReport] = []

    @property
    def agrees(self) -> bool:
        """Whether windows were compared, all agree, and the archive is sound."""
        compared = self._compared
        return bool(compared) and not self.damaged and all(window.agrees for window in compared)

    @property
    def is_empty(self) -> bool:
        """Whether the windows agree only because there is nothing: no archived event, and no row on either side."""
        return self.agrees and not self.archive_events and not any(window.rows_online for window in self._compared)

    @property
    def explained(self) -> bool:
        """Whether the labels of all windows that differ account for every difference."""
        return not self.damaged and not any(window.unexplained for window in self.windows)

    @property
    def passes(self) -> bool:
        """Whether windows were compared, and nothing is wrong that no label says."""
        return bool(self._compared) and self.explained

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of windows and differences."""
        compared = self._compared
        return {
            "windows": len(compared),
            "agreed": sum(window.agrees for window in compared),
            "skipped": len(self.windows) - len(compared),
            "differences": sum(len(window.differences) for window in compared),
            "unexplained": sum(len(window.unexplained) for window in compared),
        }

    @property
    def verdict(self) -> str:
        """One line: agrees, differs, differs as labelled, or nothing to compare."""
        compared, counts = self._compared, self.counts
        windows = "1 window" if len(compared) == 1 else f"{len(compared)} windows"
        job = self.job + self._compared_versions
        if self.is_empty:
            return f"nothing to compare: {windows} of {job} without rows, and no archived events"
        if self.agrees:
            return f"agrees: {windows} of {job}, {self.archive_events} archived events"
        if self.damaged:
            return f"the archive is damaged: {len(self.damaged)} of {self.archive_files} files"
        if not compared:
            gone = next((window.skipped for window in self.windows if "no longer" in window.skipped), None)
            return f"nothing to compare: {gone or f'no final window of {self.job}'}"
        if self.explained:
            return f"differs, as its label announces: {_counted(counts['differences'])} in {job}"
        rest = counts["differences"] - counts["unexplained"]
        return f"differs: {_counted(counts['unexplained'])} in {job}" + (
            f", and {rest} that labels explain" if rest else ""
        )

    @property
    def _compared_versions(self) -> str:
        """The versions whose windows were compared, in parentheses; "" of a job that was never changed."""
        numbers = [str(each.version) for each in self.versions if each.windows]
        if not numbers:
            return ""
        return f" (version{'s' * (len(numbers) > 1)} {', '.join(numbers)})"

    @property
    def _compared(self) -> list[WindowReport]:
        return [window for window in self.windows if not window.skipped]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values, with the verdict."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        known = {"agrees": self.agrees, "explained": self.explained, "verdict": self.verdict, "counts": self.counts}
        return known | plain

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Render for a terminal: a line per window, the first differences, the verdict."""
        heads = ["window (UTC)", *(["version"] if self.versions else []), "status", "rows", "Spark's rows", "result"]
        windows = Table(*heads, box=None, pad_edge=False)
        listed = self.windows
        if len(listed) > SHOWN_MAX:
            listed = [window for window in listed if window.differences or window.skipped][:SHOWN_MAX]
        for window in listed:
            same = "no rows, no events" if self.is_empty else "agrees"
            outcome = window.skipped or (same if window.agrees else _outcome(window))
            outcome = "; ".join(
                [outcome, *window.notes, *(["label: " + ", ".join(window.label)] if window.label else [])]
            )
            style = (
                "dim"
                if window.skipped or self.is_empty
                else "green"
                if window.agrees
                else "red"
                if window.unexplained
                else "yellow"
            )
            windows.add_row(
                window.name,
                *([str(window.version)] if self.versions else []),
                window.status,
                str(window.rows_online),
                str(window.rows_offline),
                Text(outcome, style=style),
            )
        parts: list[RenderableType] = [windows] if listed else []
        if len(listed) < len(self.windows):
            parts.append(Text(f"... and {len(self.windows) - len(listed)} other windows; --json has all", style="dim"))
        shown = [(window, each) for window in self.windows for each in window.unexplained]
        if shown:
            parts.append(_differences(shown[:SHOWN_MAX]))
        if len(shown) > SHOWN_MAX:
            parts.append(Text(f"... and {len(shown) - SHOWN_MAX} more; --json has all", style="dim"))
        if rest := sum(len(window.differences) for window in self.windows) - len(shown):
            parts.append(Text(f"{_counted(rest)} that labels explain: --json and --html list them", style="dim"))
        parts += [Text(damage, style="red") for damage in self.damaged]
        parts += [Text(gap, style="yellow") for gap in self.gaps]
        parts += [Text(each.text, style="" if each.windows else "dim") for each in self.versions]
        colour = "yellow" if self.is_empty or (self.passes and not self.agrees) else "green" if self.agrees else "red"
        parts.append(Text(self.verdict, style=f"bold {colour}"))
        yield RenderGroup(*parts)


def versions_of(versions: Sequence[Version], windows: Sequence[WindowReport]) -> list[VersionReport]:
    """Return what is said of a job's versions, given the windows that were to be compared."""
    counts = Counter(window.version for window in windows if not window.skipped)
    return [
        VersionReport(
            version=each.version,
            what=each.what,
            query=each.query,
            since_ms=each.since_ms,
            until_ms=each.until_ms,
            begins_ms=each.begins_ms,
            windows=counts[each.version],
        )
        for each in versions
    ]


def _outcome(window: WindowReport) -> str:
    rest = len(window.differences) - len(window.unexplained)
    parts = [_counted(len(window.unexplained))] if window.unexplained else []
    if rest:
        whys = list(dict.fromkeys(each.why for each in window.differences if each.why))
        parts.append(f"{rest} explained: {whys[0]}" + (f" and {len(whys) - 1} other reasons" if len(whys) > 1 else ""))
    return " and ".join(parts)


def _counted(count: int) -> str:
    return f"{count} difference{'s' * (count != 1)}"


def _differences(shown: list[tuple[WindowReport, Difference]]) -> Table:
    table = Table(
        "window (UTC)", "what", "key", "column", "published", "Spark", "events of the key", box=None, pad_edge=False
    )
    for window, each in shown:
        key = ", ".join(f"{name}={value}" for name, value in each.key.items())
        held = ", ".join(f"{agent}: {count}" for agent, count in each.agents.items())
        what = WORDS.get(each.kind, each.kind)
        cells = (window.name, what, key, each.column, shown_cell(each.online), shown_cell(each.offline), held)
        # Text, not str: values from logs must not be read as markup.
        table.add_row(*map(Text, cells))
    return table


def shown_cell(value: Any) -> str:
    """Write a cell, or a whole row, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={cell}" for name, cell in value.items())
    return "" if value is None else str(value)
