"""What a log format is to the rest of the agent, and the one place that knows them by name."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from elf.agents.errors import ConfigError, did_you_mean, nearest
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrier
from elf.agents.sources.counters import Parsed
from elf.agents.sources.json_lines import JSON, JsonLines, iso_times
from elf.agents.sources.kept import Kept
from elf.agents.sources.machine_time import machine_zone, wall_clock_ms
from elf.agents.sources.objects.frames import TimesOf
from elf.agents.sources.objects.named import OBJECTS, object_name
from elf.agents.sources.times.notations import NO_TIME

#: The zone that times of JSON are taken to be of that do not say theirs.
UTC_NAME = "UTC"


class Format(Protocol):
    """Makes event frames of whole lines, in two steps: lines that no job can want are skipped before any is parsed.

    `columns` is the fixed schema of a format, or None where the lines themselves name their columns (json).
    """

    @property
    def name(self) -> str:
        """The name, or the pasted text, that the configuration used."""

    @property
    def columns(self) -> Mapping[str, SqlType] | None:
        """Every column of a fixed schema without `ts`, or None."""

    @property
    def addresses(self) -> Collection[str]:
        """The columns that are known to hold addresses, whatever they are called."""

    @property
    def carrier(self) -> Carrier | None:
        """What knows which lines those behind them need; None if each stands for itself."""

    @property
    def derives_all(self) -> bool:
        """Whether lines have no fields of their own for the parts of a request: these are all made of it."""

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines that some job may want, clean.

        Args:
            chunk: whole lines; the last newline may be missing.
            literals: one entry a job, the texts that all must occur in a line for that job to want it. A line that no
                job wants is skipped unparsed (`filtered`); an empty entry, or no entry, wants every line.
            carried: lines before the chunk in its file that it needs, as the `carrier` says.
        """

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType]) -> Parsed:
        """Parse lines into a frame of `ts` and the wanted columns; lines that were skipped are accounted for, too.

        Args:
            lines: what `keep` returned, once or several times.
            wanted: columns to fill, with their types; a column the lines do not have is null.
        """


def parse_chunk(
    format: Format,
    chunk: bytes,
    wanted: Mapping[str, SqlType],
    literals: Sequence[Sequence[str]] = (),
    carried: Sequence[bytes] = (),
) -> Parsed:
    """Take both steps; the arguments are theirs."""
    return format.parse(format.keep(chunk, literals, carried), wanted)


def _json_times(zone: zoneinfo.ZoneInfo | None, now_ms: Callable[[], int]) -> TimesOf:
    """Return what reads the event times of JSON lines; notations but ISO-8601 are not loaded before any is met."""
    local = _local(zone)

    def times_of(values: Sequence[object]) -> npt.NDArray[np.int64]:
        times = iso_times(values)
        if local is not None:
            from elf.agents.sources.times.values import in_zone

            times = in_zone(times, values, local)
        left = np.flatnonzero(times == NO_TIME)
        if len(left):
            from elf.agents.sources.times.values import event_times

            times[left] = event_times([values[row] for row in left.tolist()], zone or machine_zone(), now_ms())
        return times

    return times_of


def _local(zone: zoneinfo.ZoneInfo | None) -> zoneinfo.ZoneInfo | None:
    """Return the zone of times that do not say theirs; None if that is UTC."""
    return None if zone is None or zone.key == UTC_NAME else zone


def make_format(
    spec: str | Sequence[str],
    *,
    time: str = "ts",
    zone: zoneinfo.ZoneInfo | None = None,
    now_ms: Callable[[], int] = wall_clock_ms,
    unwrap: str = "",
) -> Format:
    """Make the format that a configuration names or pastes.

    Args:
        spec: a name of `elf.agents.sources.catalogue` or `elf.agents.sources.objects.named`, `json`, a wrapper and one
            of these (`cri+combined`), or a layout: nginx's `log_format`, Apache's `LogFormat`, HAProxy's `log-format`,
            or one in our notation. Of several with layouts the first that fits a line is its own.
        time: for json, csv, ltsv and logfmt, the field that holds the event time.
        zone: of times that do not say theirs; None: UTC if this machine's is, else there has to be one.
        now_ms: the clock, for times without a year.
        unwrap: for json, the field with texts that are objects themselves.

    Raises:
        ConfigError: the text is none of these; it says what would be right.
    """
    specs = [spec] if isinstance(spec, str) else list(spec)
    names = [object_name(each) for each in specs]
    if unwrap and specs != [JSON]:
        raise ConfigError("only lines of the format json can have a field to unwrap")
    if len(specs) == 1 and (specs == [JSON] or names[0] is not None):
        times_of = _json_times(zone, now_ms)
        return JsonLines(time, times_of, names[0] or JSON, unwrap, zone=_local(zone))
    # Not loaded by an agent that reads only JSON.
    from elf.agents.sources.catalogue import EXPORTED, HEADED, LAYOUTS, OBJECT_WRAPPERS, PAIRS, WRAPPERS, canonical
    from elf.agents.sources.named_layouts import is_known, layout_lines

    kinds = [name or canonical(each) for each, name in zip(specs, names, strict=True)]
    alone = [each for each, kind in zip(specs, kinds, strict=True) if kind in (JSON, *OBJECTS, *HEADED, *PAIRS)]
    if alone and len(specs) > 1:
        said = "does not go together with other formats: a source of lines of both has to be two"
        raise ConfigError(f"{alone[0]} {said}")
    if alone:
        from elf.agents.sources.headed.named import headed_lines, pair_lines

        return (headed_lines if kinds[0] in HEADED else pair_lines)(kinds[0], time, zone, now_ms)
    from elf.agents.sources.wrapped.named import are_wrapped, wrapped_lines

    if are_wrapped(specs):
        return wrapped_lines(
            specs,
            lambda inner, field: make_format(inner, time=field, zone=zone, now_ms=now_ms),
            time,
            zone,
            now_ms,
        )
    for each in specs:
        if not is_known(each):
            known = [JSON, *OBJECTS, *LAYOUTS, *HEADED, *PAIRS, *WRAPPERS, *OBJECT_WRAPPERS, EXPORTED]
            near = did_you_mean(nearest(each, known))
            raise ConfigError(
                f"unknown format {each!r}{near}; use json, combined, another of docs/FORMATS.md, or paste an nginx "
                "log_format or Apache LogFormat line"
            )
    return layout_lines(specs, zone, now_ms)
