"""Of one log file: the lines before a place that those behind it need, through chunks, restarts and truncations."""

from __future__ import annotations

from collections.abc import Sequence

from elf.agents.sources.carried import Carried, Carrier, lasting, lined_up, lines_of, taken_apart
from elf.agents.sources.files.readers import Reader
from elf.agents.sources.files.rotation import Position
from elf.agents.sources.lines import LINE_BYTES_MAX

#: Longer headers are not stored with positions.
_STORED_BYTES_MAX = 16 << 10
#: Looked through at a time for lines that others need: more than any line has.
_SCANNED_BYTES = 2 * LINE_BYTES_MAX


class CarriedLines:
    """What lines behind a place need.

    Args:
        carrier: knows it; None: nothing.
        position: of a former run, or of a copy; None: the file's front.
    """

    def __init__(self, carrier: Carrier | None, position: Position | None) -> None:
        self._carrier = carrier
        #: The lines; None while nobody has read them. Then, where they are said to be, and what was stored of them.
        self._lines: tuple[Carried, ...] | None = _known(position, carrier) if position else ()
        self._at = position.carried if position else None
        self._stored = position.header if position else ""
        #: Lines that waited for others when the file was truncated.
        self._left: tuple[bytes, ...] = ()

    @property
    def places(self) -> tuple[int, ...] | None:
        """Where the lines are, for a `Position`."""
        return self._at if self._carrier is None or self._lines is None else tuple(each.at for each in self._lines)

    @property
    def stored(self) -> str:
        """The lines that are stored, for a `Position`: headers, and what was truncated away. Others are read again."""
        if self._carrier is None:
            return ""
        if self._lines is None:
            return self._stored
        own = self._lines if self._carrier.goes_on else lasting(self._carrier, self._lines)
        lines = [each.line for each in own if each.at < 0 or not self._carrier.goes_on]
        # What is no UTF-8, or far too long to be stored, is read again, too.
        return b"".join(lines).decode() if _are_storable(lines) else ""

    @property
    def are_waiting(self) -> bool:
        """Whether some wait for others that may come in the file in which the log goes on."""
        return self._carrier is not None and self._carrier.goes_on and bool(self._lines)

    def read(self, reader: Reader, offset: int) -> None:
        """Read the lines that those behind an offset need, unless they are known. O(text), unless it is known where."""
        if self._carrier is None or self._lines is not None:
            return
        if self._at is not None:
            stored = iter(self._stored.encode().split(b"\n"))
            texts = [next(stored) + b"\n" if at < 0 else _line_at(reader, at, offset) for at in self._at]
            # What was not stored is empty but for its newline; in a file such a line may be part of a value.
            known = map(Carried, self._at, texts)
            self._lines = tuple(each for each in known if each.line.strip(b"\n") or (each.line and each.at >= 0))
            return
        carried, at = tuple[Carried, ...](), 0
        while text := reader.read_at(at, min(_SCANNED_BYTES, offset - at)):
            end = text.rfind(b"\n") + 1
            carried = self._carrier.behind(carried, text[:end], at) if end else carried
            at += end or len(text)
        self._lines = carried

    def read_anew(self, reader: Reader, offset: int) -> None:
        """Read the lines that those behind another offset need."""
        self._at = self._lines = None
        self.read(reader, offset)

    def inherit(self, position: Position) -> None:
        """Take the header that there was before the file was truncated."""
        self._lines = _restored(position.header, self._carrier) or ()

    def carry(self, older: Sequence[CarriedLines], lines: bytes, at: int) -> tuple[bytes, ...]:
        """Return what lines need that begin at a place; what those behind them will is noted.

        Args:
            older: of the files that the log was rotated to before, oldest first: what has begun there may end here.
            lines: whole lines.
            at: where they begin.
        """
        if self._carrier is None:
            return ()
        files = [*(each for each in older if each.are_waiting), self]
        before = lined_up([each._lines or () for each in files])
        for each, own in zip(files, taken_apart(self._carrier.behind(before, lines, at), len(files)), strict=True):
            each._lines = own
        return lines_of(before)

    def truncated(self, *, is_whole: bool) -> None:
        """Go on at the file's front; `is_whole`: all that was in the file was read.

        Whoever writes the file may not know of it: writes no other header, and ends what has begun.
        """
        if self._carrier is None:
            return
        carried = self._lines or _restored(self._stored, self._carrier) or ()
        goes_on = self._carrier.goes_on and is_whole and _are_storable(lines_of(carried))
        kept = carried if goes_on else lasting(self._carrier, carried)
        self._left = lines_of(carried) if len(kept) < len(carried) else ()
        self._lines = tuple(each._replace(at=place - len(kept)) for place, each in enumerate(kept))

    def leave(self) -> None:
        """Leave lines that wait for others to who reads the copy in which these are."""
        self._left = ()
        if self._carrier is not None:
            self._lines = lasting(self._carrier, self._lines or ())

    def take_owed(self, *, is_over: bool) -> tuple[bytes, ...]:
        """Return lines that wait for others which will not come any more, with what they need, once.

        Args:
            is_over: nothing comes behind them in this file, or where the log goes on.
        """
        owed = self._left
        self._left = ()
        if not owed and is_over and self._lines and self._carrier is not None and self._carrier.waiting(self._lines):
            owed = lines_of(self._lines)
            self._lines = lasting(self._carrier, self._lines)
        return owed


def _line_at(reader: Reader, at: int, offset: int) -> bytes:
    text = reader.read_at(at, min(LINE_BYTES_MAX + 1, offset - at))
    return text[: text.find(b"\n") + 1] or text


def _restored(stored: str, carrier: Carrier | None) -> tuple[Carried, ...] | None:
    """Return the header that a former run knew; None if it is to be read from the file."""
    line = stored.encode()
    if carrier is None or carrier.goes_on or not line or not carrier.behind((), line, 0):
        return None  # of another format, if there is one
    return (Carried(-1, line),)


def _known(position: Position, carrier: Carrier | None) -> tuple[Carried, ...] | None:
    """Return what lines need if that is a header alone; None if it is to be read from the file."""
    header, places = _restored(position.header, carrier), position.carried or ()
    return None if header is None or len(places) > 1 else (header[0]._replace(at=places[0] if places else -1),)


def _are_storable(lines: Sequence[bytes]) -> bool:
    text = b"".join(lines)
    return len(text) <= _STORED_BYTES_MAX and text.decode(errors="ignore").encode() == text
