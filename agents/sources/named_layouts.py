"""From the name of a format, or a pasted layout, to what reads its lines."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Sequence

from elf.agents.errors import ConfigError
from elf.agents.sources.catalogue import LAYOUTS, WRAPPERS, canonical
from elf.agents.sources.layout_lines import LayoutLines, Times
from elf.agents.sources.layouts.layout import Layout, zoneless
from elf.agents.sources.layouts.pasted import is_layout, pasted, wrapped
from elf.agents.sources.times.zones import UTC, machine_zone


def layout_lines(spec: str, zone: zoneinfo.ZoneInfo | None, now_ms: Callable[[], int]) -> LayoutLines | None:
    """Make what reads the lines of a format.

    Args:
        spec: a name, a pasted layout, or a wrapper and one of these: `cri+combined`.
        zone: of times that do not say theirs; None if nobody said.
        now_ms: the clock.

    Returns:
        None if there is no format of this name.

    Raises:
        ConfigError: a pasted layout is none, or its times need a zone that nobody said.
    """
    inner, wrappers = spec, []
    while (head := inner.partition("+"))[1] and head[0] in WRAPPERS:
        wrappers.append(pasted(WRAPPERS[head[0]]))
        inner = head[2]
    texts, absolute = _texts(inner)
    if not texts:
        return None
    layouts = [pasted(text) for text in texts]
    for outer in reversed(wrappers):
        layouts = [wrapped(outer, layout) for layout in layouts]
    return LayoutLines(spec, layouts, Times(now_ms, _zone(spec, layouts, zone)), absolute=absolute, texts=texts)


def _texts(spec: str) -> tuple[Sequence[str], bool]:
    if (named := LAYOUTS.get(canonical(spec))) is not None:
        return named.layouts, named.absolute
    if spec in WRAPPERS:
        return (WRAPPERS[spec],), False
    return ((spec,) if is_layout(spec) else ()), False


def _zone(name: str, layouts: Sequence[Layout], zone: zoneinfo.ZoneInfo | None) -> zoneinfo.ZoneInfo:
    """Return the zone of times that do not say theirs; raises ConfigError if that is anybody's guess."""
    found = zone or (machine_zone() if any(map(zoneless, layouts)) else UTC)
    if found is None:
        raise ConfigError(
            f"the times of {name!r} have no zone and this machine's is not UTC; write time_zone = "
            '"Europe/Berlin", say, or "UTC"'
        )
    return found
