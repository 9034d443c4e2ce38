"""From the name of a wrapper, and of what stands in it, to what reads its lines."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Sequence

from elf.agents.errors import ConfigError
from elf.agents.sources.catalogue import EXPORTED, JOURNAL, OBJECT_WRAPPERS, PAIRS, WRAPPERS, canonical
from elf.agents.sources.exported_lines import ExportedLines
from elf.agents.sources.format import Format
from elf.agents.sources.json_lines import JsonLines
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.named_layouts import layout_lines
from elf.agents.sources.pair_lines import PairLines
from elf.agents.sources.wrapped.wrappers import LayoutWrapper, ObjectWrapper, Wrapper
from elf.agents.sources.wrapped_lines import Inner, WrappedLines

#: CRI as a layout that tells parts of lines.
_CRI, _CRI_IN_PARTS = "cri", "{ts:time:iso} {stream:stream} {part:part} {message:rest}"


def are_wrapped(specs: Sequence[str]) -> bool:
    """Tell whether formats are in a wrapper that is more than a layout around others.

    Raises:
        ConfigError: only some are in it.
    """
    heads = {spec.partition("+")[0] for spec in specs}
    if len(heads) == 1 and any(map(_is_wrapped, specs)):
        return True
    objects = heads.intersection((*OBJECT_WRAPPERS, EXPORTED))
    if objects:
        raise ConfigError(f"{' and '.join(specs)} do not go together: all lines stand in {objects.pop()}, or none does")
    return False


def _is_wrapped(spec: str) -> bool:
    head, _, rest = spec.partition("+")
    return head in (_CRI, EXPORTED, *OBJECT_WRAPPERS) or (head in WRAPPERS and canonical(rest) in ("json", *PAIRS))


def wrapped_lines(
    specs: Sequence[str],
    make: Callable[[str | Sequence[str], str], Format],
    time: str,
    zone: zoneinfo.ZoneInfo | None,
    now_ms: Callable[[], int],
) -> WrappedLines:
    """Make what reads the lines of a wrapper.

    Args:
        specs: of which `are_wrapped` is true; of what stands in lines, the first that fits is its own.
        make: makes a format of names and of the field that holds the event time.
        time: that field of what is in the wrapper.
        zone: as for `make_format`.
        now_ms: the clock.

    Raises:
        ConfigError: what is in the wrapper cannot be.
    """
    head = specs[0].partition("+")[0]
    rests = [spec.partition("+")[2] for spec in specs]
    if len(rests) > 1 and "" in rests:
        raise ConfigError(f"{head} alone takes all lines, so that no other format can be beside it")
    inner = _inner(head, make(rests, time)) if rests != [""] else None
    direct = None
    wrapper: Wrapper
    if head in (EXPORTED, *OBJECT_WRAPPERS):
        named = OBJECT_WRAPPERS[JOURNAL if head == EXPORTED else head]
        objects = make("json", named.time)
        assert isinstance(objects, JsonLines)
        wrapper = ObjectWrapper(objects, named.text, named.fields, has_parts=named.has_parts)
        if head == EXPORTED:
            return ExportedLines(", ".join(specs), wrapper, inner)
    else:
        text = _CRI_IN_PARTS if head == _CRI else WRAPPERS[head]
        wrapper = LayoutWrapper(layout_lines([text], zone, now_ms), has_part=head == _CRI)
        direct = layout_lines(specs, zone, now_ms) if inner is None or isinstance(inner, LayoutLines) else None
    return WrappedLines(", ".join(specs), wrapper, inner, direct)


def _inner(head: str, format: Format) -> Inner:
    if isinstance(format, JsonLines | LayoutLines | PairLines):
        return format
    raise ConfigError(f"{format.name} cannot stand in lines of {head}: its lines do not stand for themselves")
