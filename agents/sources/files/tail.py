"""Tails log files through every kind of rotation (ECOSYSTEM A2); the caller decides when to look again.

`read` hands out whole lines, oldest first within a family of rotated files, the families in turn. `positions` says how
far exactly that is: stored together with what became of the lines, it makes a restart exact.

Rename and create: the handle of the old file is read to its end, and watched a while longer for workers that still
write to it, before and while the new one is read. Copy and truncate: noticed by the text before our offset; what was
not read yet is taken from the copy where there is one, else counted as a gap. Which files there are: `known_files`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from elf.agents.host.clock import monotonic_ms
from elf.agents.sources.carried import Carrier
from elf.agents.sources.files import rotation
from elf.agents.sources.files.followed import CutShortError, DamagedError, Followed, TruncatedError
from elf.agents.sources.files.known_files import Gap, KnownFiles
from elf.agents.sources.files.rotation import Position
from elf.agents.sources.files.spool import Spool, Spools

#: How long a rotated file is watched after its end was reached: web servers finish open requests in it.
ROTATE_WAIT_MS = 5_000
#: A line that was written in parts may lie in so many files; its first one is held open until there are more, or until
#: it was removed, with another one behind it.
FILES_OF_A_LINE = 4
#: Reads between two looks at the folders while there is always something to read.
_READS_PER_LOOK = 16


class Chunk(msgspec.Struct, frozen=True):
    """Whole lines of one file, and the place after them; `stream` names the log whose file it is, rotated or not.

    `carried` are lines before them in their file that they need to be understood; without data, lines that waited for
    others, which will not come.
    """

    data: bytes
    path: str
    position_after: Position
    stream: str
    carried: tuple[bytes, ...] = ()


class Tail:
    """Follows the files of some paths and globs.

    Args:
        patterns: paths or globs; a file that is missing may appear later.
        start: where files begin that exist at the first look and were never read: "beginning" or "end". Files that a
            plain path was rotated to before the first look are not read; those that a glob matches are.
        rotate_wait_ms: how long a rotated file is watched after its end.
        now_ms: clock for that; any origin.
        spools: path -> the log of our own that is there.
        carrier: knows which lines those behind them need.
    """

    def __init__(
        self,
        patterns: Sequence[str] | str,
        *,
        start: str = "beginning",
        rotate_wait_ms: int = ROTATE_WAIT_MS,
        now_ms: Callable[[], int] = monotonic_ms,
        spools: Mapping[str, Spool] | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        absolute = _absolute(patterns)
        self._spools = own = Spools(spools or {})
        self._files = KnownFiles(absolute, from_end=start == "end", now_ms=now_ms, spools=own, carrier=carrier)
        self._rotate_wait_ms = rotate_wait_ms
        self._now_ms = now_ms
        #: All files are our own: nobody but we write them.
        self.is_own = own.are_all(absolute)
        self.at_end = False
        self._turn = self._reads = 0

    @property
    def carrier(self) -> Carrier | None:
        """What knows which lines those behind them need; may be set as long as nothing has been read."""
        return self._files.carrier

    @carrier.setter
    def carrier(self, carrier: Carrier | None) -> None:
        self._files.carrier = carrier

    @property
    def errors(self) -> Mapping[str, str]:
        """Path -> why it cannot be read now; it is tried again at every look."""
        return self._files.errors

    @property
    def gap_count(self) -> int:
        """How many gaps there were since the start."""
        return self._files.gap_count

    @property
    def gap_bytes(self) -> int:
        """What is known to be lost in them."""
        return self._files.gap_bytes

    @property
    def begun_late(self) -> set[str]:
        """Logs with files that were rotated away before the first look and are not read, until that is noted."""
        return self._files.begun_late

    @property
    def troubles(self) -> list[str]:
        """Why lines may be out of sight: files that cannot be read, paths with no file, as of the last look."""
        return self._files.troubles

    @property
    def waiting(self) -> set[str]:
        """Logs that had lines to read at the last look; a log with all files it was rotated to is one."""
        return self._files.waiting

    def restore(self, positions: bytes, begun_late: Iterable[str] = ()) -> None:
        """Take up the places that `positions` returned in a former run, and its `begun_late`; before the first read.

        Raises:
            ValueError: they are damaged, or were written by a newer version.
        """
        self._files.restore(rotation.decode(positions), begun_late)

    def redirect(self, patterns: Sequence[str], start: str) -> None:
        """Follow the files of other paths from now on; a log that was not followed before begins as `start` says.

        What was read of the others is remembered, as of files that are gone.
        """
        absolute = _absolute(patterns)
        self._files.redirect(absolute, from_end=start == "end")
        self.is_own = self._spools.are_all(absolute)

    def positions(self) -> bytes:
        """Return, as JSON, the places after exactly what was handed out."""
        return rotation.encode(self.places())

    def places(self) -> list[Position]:
        """Return the places of all known files, those that are gone included."""
        return self._files.places()

    def followed(self) -> list[Position]:
        """Return the places of the files that are there, as of the last look."""
        return [file.position for file in self._files.files.values()]

    def look(self) -> None:
        """See which files there are, and read nothing."""
        self._files.look()

    def take_late(self, live: str) -> bool:
        """Whether a log has files that were rotated away before the first look and are not read; once."""
        is_late = live in self.begun_late
        self.begun_late.discard(live)
        return is_late

    def take_gaps(self) -> list[Gap]:
        """Return the gaps found since the last call."""
        return self._files.take_gaps()

    def read(self, bytes_max: int, *, final: bool = False) -> Chunk | None:
        """Hand out the next whole lines, about `bytes_max` at most; None when there are none now.

        With `final` no more lines are expected: a last line without newline is handed out, too.
        """
        self._reads += 1
        looked = self._files.is_new or self._reads % _READS_PER_LOOK == 0
        if looked:
            self._files.look()
        chunk = self._next(bytes_max, final)
        if chunk is None and not looked:
            self._files.look()
            chunk = self._next(bytes_max, final)
        self.at_end = chunk is None
        return chunk

    def close(self) -> None:
        """Close all files; the places are kept."""
        self._files.close()

    def _next(self, bytes_max: int, final: bool) -> Chunk | None:
        """Ask the families in turn; once more if a truncation has changed what there is to read."""
        gaps = self.gap_count
        chunk = self._ask(bytes_max, final)
        return self._ask(bytes_max, final) if chunk is None and self.gap_count != gaps else chunk

    def _ask(self, bytes_max: int, final: bool) -> Chunk | None:
        families = list(self._files.families.items())
        for step in range(len(families)):
            live, files = families[(self._turn + step) % len(families)]
            for place, file in enumerate(list(files)):
                file.older = files[:place]
                data = self._read(file, live, bytes_max, final)
                if data or file.take_owed():
                    self._turn = (self._turn + step + 1) % len(families)
                    return Chunk(data, file.path, file.position, live, file.carried)
        return None

    def _goes_on(self, file: Followed, live: str) -> bool:
        """Whether what has begun in a file may end in one that its log was rotated to since."""
        files = self._files.families[live]
        newer = files[files.index(file) + 1 :] if file in files else []
        is_kept = len(newer) < 2 or (len(newer) < FILES_OF_A_LINE and os.path.exists(file.path))
        return is_kept and any(not other.done for other in newer)

    def _read(self, file: Followed, live: str, bytes_max: int, final: bool) -> bytes:
        """Read one file; a truncation or an error is noted and the others go on."""
        if file.done:
            return b""
        errors = self._files.errors
        over = file.rotated_ms is not None and self._now_ms() - file.rotated_ms >= self._rotate_wait_ms
        try:
            data = file.read(bytes_max)
            if not data and (over or final):
                data = file.read(bytes_max, half_line=True)
                # What has begun in it may end in the file in which the log goes on.
                is_needed = file.needed.are_waiting and not final and self._goes_on(file, live)
                file.done = not data and file.rotated_ms is not None and not is_needed
        except TruncatedError:
            self._files.on_truncated(file, live)
            return b""
        except DamagedError as error:
            errors[file.path] = str(error)
            self._files.note_gap(file.position, live)
            file.done = True
            file.close()
            return b""
        except CutShortError as error:
            if file.path not in errors:
                self._files.note_gap(file.position, live)
            errors[file.path] = str(error)
            # It goes on if whoever copies it does.
            if not os.path.exists(file.path):
                file.done = True
                file.close()
            return b""
        except OSError as error:
            errors[file.path] = error.strerror or str(error)
            file.close()
            return b""
        errors.pop(file.path, None)
        if file.done:
            file.close()
        return data


def _absolute(patterns: Sequence[str] | str) -> list[str]:
    return [os.path.abspath(pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns)]
