"""From the name of a format whose headers, or lines, name the columns to what reads its lines."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Sequence

from elf.agents.sources.headed.directives import CLOUDFRONT, W3C, Directives
from elf.agents.sources.headed.heading import Heading
from elf.agents.sources.headed.tables import GCS, Table, notations_for
from elf.agents.sources.headed_lines import HeadedLines
from elf.agents.sources.layout_lines import LayoutLines, Times
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import TIME, Field, Layout
from elf.agents.sources.machine_time import machine_zone
from elf.agents.sources.pair_lines import PairLines
from elf.agents.sources.pairs.line import Style
from elf.agents.sources.times.fields import time_fields
from elf.agents.sources.times.notations import NOTATIONS
from elf.agents.sources.times.zones import UTC

_DIALECTS = {dialect.name: dialect for dialect in (W3C, CLOUDFRONT)}


def headed_lines(name: str, time: str, zone: zoneinfo.ZoneInfo | None, now_ms: Callable[[], int]) -> HeadedLines:
    """Make what reads the lines of a format.

    Args:
        name: of `elf.agents.sources.catalogue.HEADED`.
        time: of csv, the field with the event time.
        zone: of times that do not say theirs; None: UTC if this machine's is, else there have to be none.
        now_ms: the clock.
    """
    zone = zone or machine_zone()
    heading: Heading
    if name in _DIALECTS:
        heading, zone = Directives(_DIALECTS[name]), UTC
    elif name == "gcs":
        heading = Table((GCS.time,), (NOTATIONS[GCS.notation],), GCS.fields)
    else:
        heading = Table(time_fields(time), notations_for(zone is not None))

    def read_by(format: str, layouts: Sequence[Layout]) -> LayoutLines:
        return LayoutLines(format, layouts, Times(now_ms, zone or UTC))

    return HeadedLines(name, heading, read_by)


def pair_lines(name: str, time: str, zone: zoneinfo.ZoneInfo | None, now_ms: Callable[[], int]) -> PairLines:
    """Make what reads lines of names and values.

    Args:
        name: of `elf.agents.sources.catalogue.PAIRS`.
        time: the field with the event time.
        zone: as for `headed_lines`.
        now_ms: the clock.
    """
    zone = zone or machine_zone()
    # As one of CSV it may be in brackets.
    time_field = Field(TIME, Kind.TIME, tuple(notations_for(zone is not None)), cell=True)
    clock = LayoutLines(name, [Layout((time_field,))], Times(now_ms, zone or UTC))
    return PairLines(Style[name.upper()], time_fields(time), clock)
