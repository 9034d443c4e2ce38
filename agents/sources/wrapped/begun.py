"""Parts of records that have begun and not ended: those that come behind them need them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from elf.agents.sources.carried import Carried
from elf.agents.sources.lines import clean
from elf.agents.sources.wrapped.records import cut_places

_STREAMS = (b"stdout", b"stderr")


class Part(NamedTuple):
    """What a line says of its text.

    Attributes:
        stream: whose it is.
        is_end: it ends a record.
        length: of the text, in bytes.
    """

    stream: bytes
    is_end: bool
    length: int


class BegunParts:
    """Carries the lines of records that have begun; see `elf.agents.sources.carried.Carrier`.

    Args:
        mark: what lines have, with `%s` for their stream.
        read: reads a clean line; None: it is none of them.
        may_begin: whether a record may have begun in some lines; fast.
        hides: texts of which one may stand in the mark, so that lines have it otherwise.
    """

    goes_on = True

    def __init__(
        self,
        mark: bytes,
        read: Callable[[bytes], Part | None],
        may_begin: Callable[[bytes], bool],
        hides: Sequence[bytes] = (),
    ) -> None:
        self._mark = mark
        # A NUL is taken out of lines, also where it stands in the mark.
        self._hides = (b"\0", *hides)
        self._may_begin = may_begin
        self._read = read

    def behind(self, carried: Sequence[Carried], text: bytes, at: int) -> tuple[Carried, ...]:
        """Return the lines of all records that have begun: of each stream those behind the last end."""
        begun: list[Carried] = []
        if not carried and not self._may_begin(text):
            return ()
        for stream in _STREAMS:
            own, lengths, has_end = self._unended(stream, text, at)
            if not has_end:
                before = [
                    (each, part)
                    for each in carried
                    if (part := self._read(clean(each.line).data)) and part.stream == stream
                ]
                own = [each for each, _ in before] + own
                lengths = [part.length for _, part in before] + lengths
            cut = cut_places(lengths, [False] * len(lengths))
            begun += own[cut[-1] + 1 :] if cut else own
        return tuple(sorted(begun))

    def waiting(self, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Return all of them."""
        return carried

    def _unended(self, stream: bytes, text: bytes, at: int) -> tuple[list[Carried], list[int], bool]:
        """Return the lines of a stream behind the last end, the lengths of their texts, and whether there is an end."""
        own, lengths, place, mark = list[Carried](), list[int](), len(text), self._mark % stream
        is_hidden = any(each in text for each in self._hides)  # then each line is looked at
        # From the back: nearly always the last line of the stream is an end.
        while (hit := place - 1 if is_hidden else text.rfind(mark, 0, place)) >= 0:
            place = text.rfind(b"\n", 0, hit) + 1
            line = text[place : text.find(b"\n", hit) + 1 or len(text)]
            part = self._read(clean(line).data)
            if part is None or part.stream != stream:
                continue
            if part.is_end:
                return own[::-1], lengths[::-1], True
            own.append(Carried(at + place, line))
            lengths.append(part.length)
        return own[::-1], lengths[::-1], False
