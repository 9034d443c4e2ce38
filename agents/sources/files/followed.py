"""One log file being read: what was handed out, and the next whole lines of it.

Half a line waits for its newline. A line beyond `LINE_BYTES_MAX` is handed out cut (one byte too long, which the format
sees and flags) and its rest is skipped, so memory stays bounded whatever the file holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from elf.agents.sources.carried import Carrier
from elf.agents.sources.files.carried_lines import CarriedLines
from elf.agents.sources.files.readers import Reader, key_of_open, open_plain, open_reader, renewed, text_bytes
from elf.agents.sources.files.rotation import (
    BEFORE_BYTES,
    HEAD_BYTES,
    Position,
    Seen,
    continues,
    digest,
    is_compressed_name,
)
from elf.agents.sources.lines import LINE_BYTES_MAX

#: Looked at to find the last line's end before the read; most lines are far shorter.
_PEEK_BYTES = 16 << 10


class TruncatedError(Exception):
    """The file no longer holds, before our offset, what we read there: it was truncated and is written anew."""


class DamagedError(Exception):
    """The rest of a compressed file cannot be decompressed; the text says why."""


class CutShortError(Exception):
    """A compressed file has no end where its data end; the text says so. Somebody may be copying it still."""


class Followed:
    """A file, open or not, with its place."""

    def __init__(
        self,
        seen: Seen,
        position: Position | None = None,
        limit: Callable[[], int] | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        """Follow a file from its front, or from the place where a former run, or a copy of it, was read to.

        With a `limit` the file is one of our own: nothing beyond so many bytes is read, and it is only appended to. The
        `carrier` knows which lines those behind them need.
        """
        self.path = seen.path
        self.key = seen.key
        self.seen = seen
        self.offset = position.offset if position else 0
        self.in_line = position.in_line if position else False
        self.done = position.done if position else False
        self.rotated_ms: int | None = None
        self._limit = limit
        #: Lines that those behind the offset need.
        self.needed = CarriedLines(carrier, position)
        #: Those that were needed by what was handed out last.
        self.carried: tuple[bytes, ...] = ()
        #: The files that its log was rotated to before, oldest first.
        self.older: Sequence[Followed] = ()
        #: Not opened yet since a former run read it.
        self._restored = position is not None
        #: The largest size seen; what lies between the offset and this is lost if the file is truncated now.
        self.size = 0
        self.reader: Reader | None = None
        #: Whether its bytes are those of its text, and whether it is compressed: by its name, until it is opened.
        self.compressed = is_compressed_name(seen.path)
        self.is_plain = not self.compressed
        #: Whether that was told by the front that the file has now. In files of our own it is whatever people push.
        self._is_judged = True
        #: Size and time of the last change when the file was last looked at.
        self.looked: tuple[int, int] | None = None
        #: Hash of the first bytes that were read, and how many these are.
        self.head = (position.head, position.head_bytes) if position else (digest(b""), 0)
        self._before_digest = position.before if position else digest(b"")
        self._before: bytes | None = None
        self._unchanged: tuple[int, int] | None = None

    @property
    def position(self) -> Position:
        """The place after what was handed out."""
        return Position(
            path=self.path,
            device=self.key[0],
            inode=self.key[1],
            head=self.head[0],
            head_bytes=self.head[1],
            offset=self.offset,
            before=self._before_digest if self._before is None else digest(self._before),
            in_line=self.in_line,
            done=self.done,
            carried=self.needed.places,
            header=self.needed.stored,
        )

    @property
    def waiting(self) -> bool:
        """Whether there was text to read when the file was last looked at."""
        if self.done or self.looked is None:
            return False
        if self.is_plain:
            return self.looked[0] > self.offset
        return self.compressed or self.looked != self._unchanged

    def has_more(self, seen: Seen) -> bool:
        """Tell whether a file that is done with has grown, as a look at it shows; a compressed one is whole."""
        if self.is_plain:
            return seen.size > self.offset
        return not self.compressed and self.looked not in (None, (seen.size, seen.mtime_ns))

    def open(self) -> Reader:
        """Open the file, if it is not open, and check that it is the one we know.

        Raises:
            OSError: it cannot be opened.
            TruncatedError: its text before our offset has changed, or it lost some before any was read.
        """
        reader = self.reader
        if reader is None:
            reader = open_reader(self.path) if self._limit is None else open_plain(self.path)
            status = os.fstat(reader.fd)
            if key_of_open(reader) != self.key:
                reader.close()
                raise FileNotFoundError(f"{self.path} was replaced between looking at it and opening it")
            self._take(reader)
            if not self.offset and self.looked is not None and status.st_size < self.looked[0]:
                self.looked = None
                raise TruncatedError  # nothing was read that could be missed: it could not be opened before
        elif not self.offset and not (self._is_judged and reader.is_decided):
            reader = renewed(reader, self.path)
            self._take(reader)
        if self._before is None:
            if self.offset and not continues(self.position, None, reader.read_at):
                raise TruncatedError
            count = min(BEFORE_BYTES, self.offset)
            self._before = reader.read_at(self.offset - count, count)
        self._restored = False
        self.needed.read(reader, self.offset)
        return reader

    def _take(self, reader: Reader) -> None:
        self.reader = reader
        self.is_plain = reader.is_plain
        self.compressed = reader.is_compressed
        self._is_judged = True

    def close(self) -> None:
        """Close the file; its place is kept."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        self._before_digest = self.position.before
        self._before = None
        self._unchanged = None

    def take_owed(self) -> bool:
        """Whether lines wait for others that will not come any more; `carried` are these then, once."""
        owed = self.needed.take_owed(is_over=self.done)
        self.carried = owed or self.carried
        return bool(owed)

    def skip_to_end(self) -> None:
        """Begin at the end of what the file holds now; the rest of a half line there is skipped, too.

        The text of a compressed file is not measured; only its front is remembered.

        Raises:
            OSError: the file cannot be read.
        """
        reader = self.open()
        self._note_head(reader)
        if self.compressed:
            return
        self.size = os.fstat(reader.fd).st_size
        self._go_to(reader, text_bytes(reader))

    def resume_cut(self) -> bool:
        """Go on in a file that was not written anew, but has lost its end, or some bytes, while nobody read it.

        A power failure takes what was not synced of a log, and the web server goes on behind that: to begin at the
        front would count its lines again. Such a file still begins as it did; one written anew begins with another
        line. Returns False if it is no such file, or was open already.
        """
        reader = self.reader
        if not self._restored or reader is None or self.compressed:
            return False
        head, head_bytes = self.head
        if head_bytes < HEAD_BYTES or digest(reader.read_at(0, head_bytes)) != head:
            return False
        self._go_to(reader, min(self.offset, text_bytes(reader)))
        return True

    def _go_to(self, reader: Reader, offset: int) -> None:
        """Go on at a place that may be in the middle of a line, whose rest is then skipped."""
        count = min(BEFORE_BYTES, offset)
        self._before = reader.read_at(offset - count, count)
        self.offset = offset
        self.needed.read_anew(reader, offset)
        self.in_line = self._before[-1:] not in (b"", b"\n")

    def begin_anew(self) -> int:
        """Start at the front after a truncation; returns how many bytes, seen but not read, are lost with it."""
        lost = max(0, self.size - self.offset)
        self.offset = self.size = 0
        self.needed.truncated(is_whole=not lost)
        self.in_line = False
        self.head = (digest(b""), 0)
        self._before = b""
        self._unchanged = None
        self._is_judged = self._limit is not None
        return lost

    def read(self, bytes_max: int, *, half_line: bool = False) -> bytes:
        """Hand out the next whole lines, up to about `bytes_max`; empty when there are none now.

        Args:
            bytes_max: upper bound, except that a single longer line is handed out, up to the cap.
            half_line: hand out a last line without newline, too, with a newline added.

        Raises:
            OSError: the file cannot be read.
            TruncatedError: its text before our offset has changed.
            DamagedError: it is compressed, and what follows is damaged.
            CutShortError: it is compressed and has no end; only where half a line would be handed out.
        """
        reader = self.open()
        status = os.fstat(reader.fd)
        state = (status.st_size, status.st_mtime_ns)
        if state == self._unchanged and not half_line:
            return b""
        # After the size, and once: what comes to be allowed meanwhile is for the next read.
        limit = None if self._limit is None else self._limit()
        while True:
            text = self._text(reader, bytes_max, limit)
            if self.is_plain:
                self.size = max(self.size, status.st_size)
            fault = reader.fault if half_line else reader.damage
            # Of what ends in the middle, the last line is not half but cut.
            lines, used = self._whole_lines(text, bytes_max, half_line and fault is None)
            if not used and bytes_max <= LINE_BYTES_MAX and len(text) >= bytes_max:
                bytes_max = LINE_BYTES_MAX + 1
                continue
            at = self.offset
            self._advance(reader, text, used)
            if lines:
                older = [file.needed for file in self.older if not file.done]
                self.carried = self.needed.carry(older, lines, at)
                self._unchanged = None
                return lines
            if not used:
                if reader.damage:
                    raise DamagedError(reader.damage)
                if fault:
                    raise CutShortError(fault)
                if limit is None or limit >= status.st_size:
                    self._unchanged = state
                return b""

    def _text(self, reader: Reader, count: int, limit: int | None) -> bytes:
        """Read from the offset on, then check that what lies before it is unchanged."""
        if limit is not None:
            count = max(0, min(count, limit - self.offset))
        before = self._before or b""
        if self.compressed:
            return reader.read_at(self.offset, count)
        if not self.is_plain:
            # In one go: what is transcoded can be asked for earlier text from the front on only.
            text = reader.read_at(self.offset - len(before), len(before) + count)
            if not text.startswith(before):
                raise TruncatedError
            return text[len(before) :]
        text = reader.read_at(self.offset, self._whole(reader, count))
        if reader.read_at(self.offset - len(before), len(before)) != before:
            raise TruncatedError
        return text

    def _whole(self, reader: Reader, count: int) -> int:
        """Shorten a read so that it ends with a line: cutting megabytes afterwards would copy them once more."""
        if count <= _PEEK_BYTES:
            return count
        peek = reader.read_at(self.offset + count - _PEEK_BYTES, _PEEK_BYTES)
        end = peek.rfind(b"\n")
        return count - _PEEK_BYTES + end + 1 if end >= 0 else count

    def _whole_lines(self, text: bytes, asked: int, half_line: bool) -> tuple[bytes, int]:
        """Cut whole lines off the front; returns them and how many bytes of the text they use up."""
        if self.in_line:
            end = text.find(b"\n")
            # The newline of the huge line ends the skipping; it belongs to the cut line handed out before.
            self.in_line = end < 0
            return b"", len(text) if end < 0 else end + 1
        end = text.rfind(b"\n") + 1
        if end:
            return text[:end], end
        if len(text) > LINE_BYTES_MAX:
            self.in_line = True
            return text[: LINE_BYTES_MAX + 1] + b"\n", LINE_BYTES_MAX + 1
        if half_line and text and len(text) < asked:
            return text + b"\n", len(text)
        return b"", 0

    def _advance(self, reader: Reader, text: bytes, used: int) -> None:
        if used:
            before = self._before or b""
            if self.head[1] < HEAD_BYTES:
                self._note_head(reader, before + text[: min(used, HEAD_BYTES)])
            self.offset += used
            self._before = (before + text[max(0, used - BEFORE_BYTES) : used])[-BEFORE_BYTES:]

    def _note_head(self, reader: Reader, front: bytes | None = None) -> None:
        """Take the fingerprint of the first bytes, from text at hand where that begins at the front."""
        whole_front = front is not None and self.offset == len(self._before or b"")
        head = front[:HEAD_BYTES] if whole_front and front else reader.read_at(0, HEAD_BYTES)
        self.head = digest(head), len(head)
