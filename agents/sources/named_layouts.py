"""From the name of a format, or a pasted layout, to what reads its lines."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Sequence
from typing import NamedTuple

from elf.agents.errors import ConfigError
from elf.agents.sources.catalogue import LAYOUTS, WRAPPERS, canonical
from elf.agents.sources.layout_lines import LayoutLines, Times
from elf.agents.sources.layouts.layout import Layout, zoneless
from elf.agents.sources.layouts.pasted import imitated, is_layout, pasted, wrapped
from elf.agents.sources.machine_time import machine_zone
from elf.agents.sources.times.zones import UTC


def layout_lines(specs: Sequence[str], zone: zoneinfo.ZoneInfo | None, now_ms: Callable[[], int]) -> LayoutLines:
    """Make what reads the lines of formats, the first of which that fits a line is its own.

    Args:
        specs: each a name, a pasted layout, or a wrapper and one of these: `cri+combined`.
        zone: of times that do not say theirs; None if nobody said.
        now_ms: the clock.

    Raises:
        ConfigError: a pasted layout is none, formats do not go together, or times need a zone that nobody said.
    """
    read = [_read(spec) for spec in specs]
    fields = [field for each in read for layout in each.layouts for field in layout.fields()]
    layouts, kinds = list[Layout](), {each.absolute for each in read}
    for wrappers, inners, _ in read:
        own = inners
        for outer in reversed(wrappers):
            own = wrapped(pasted(WRAPPERS[outer]), own, fields)
        layouts += own
    if len(kinds) > 1:
        raise ConfigError(f"{' and '.join(specs)} do not go together: only in some may requests name their host")
    name = ", ".join(specs)
    return LayoutLines(name, layouts, Times(now_ms, _zone(name, layouts, zone)), absolute=kinds == {True})


def is_known(spec: str) -> bool:
    """Tell whether a format of layouts has this name, or is meant to be one."""
    _, inner = _unwrapped(spec)
    return canonical(inner) in LAYOUTS or inner in WRAPPERS or is_layout(inner)


def _unwrapped(spec: str) -> tuple[list[str], str]:
    """Return the wrappers of a format, the outermost first, and what is in them."""
    wrappers, inner = list[str](), spec
    while (head := inner.partition("+"))[1] and head[0] in WRAPPERS:
        wrappers.append(head[0])
        inner = head[2]
    return wrappers, inner


class _Read(NamedTuple):
    """A format: its wrappers, the outermost first, the layouts in them, and whether requests may name their host."""

    wrappers: Sequence[str]
    layouts: list[Layout]
    absolute: bool


def _read(spec: str) -> _Read:
    wrappers, inner = _unwrapped(spec)
    named = LAYOUTS.get(canonical(inner))
    texts = (*named.layouts, *named.also) if named is not None else (WRAPPERS.get(inner, inner),)
    layouts = [pasted(text) for text in texts]
    if named is None and inner not in WRAPPERS:
        layouts += filter(None, map(imitated, layouts))
    return _Read(wrappers, layouts, named is not None and named.absolute)


def _zone(name: str, layouts: Sequence[Layout], zone: zoneinfo.ZoneInfo | None) -> zoneinfo.ZoneInfo:
    """Return the zone of times that do not say theirs; raises ConfigError if that is anybody's guess."""
    found = zone or (machine_zone() if any(map(zoneless, layouts)) else UTC)
    if found is None:
        raise ConfigError(
            f"the times of {name!r} have no zone and this machine's is not UTC; write time_zone = "
            '"Europe/Berlin", say, or "UTC"'
        )
    return found
