"""From the name of a format with headers to what reads its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from elf.agents.sources.headed.directives import CLOUDFRONT, W3C, Directives
from elf.agents.sources.headed.heading import Heading
from elf.agents.sources.headed_lines import HeadedLines
from elf.agents.sources.layout_lines import LayoutLines, Times
from elf.agents.sources.layouts.layout import Layout
from elf.agents.sources.times.zones import UTC

_DIALECTS = {dialect.name: dialect for dialect in (W3C, CLOUDFRONT)}


def headed_lines(name: str, now_ms: Callable[[], int]) -> HeadedLines:
    """Make what reads the lines of a format.

    Args:
        name: of `elf.agents.sources.catalogue.HEADED`.
        now_ms: the clock.
    """
    heading: Heading = Directives(_DIALECTS[name])

    def read_by(format: str, layouts: Sequence[Layout]) -> LayoutLines:
        return LayoutLines(format, layouts, Times(now_ms, UTC))

    return HeadedLines(name, heading, read_by)
