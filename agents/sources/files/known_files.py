"""Which files the logs of some paths have, through every kind of rotation (ECOSYSTEM A2), and how far each was read.

A log with all files that it was rotated to is a family, named by its live path. A file is the one that it was for as
long as its inode holds the text that it held, whatever its name; what cannot be decided for sure is a gap, in which
lines may be lost. The decisions that need no file are in `rotation`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from elf.agents.sources.carried import Carrier
from elf.agents.sources.files import rotation
from elf.agents.sources.files.families import family_on_disk, live_paths
from elf.agents.sources.files.followed import Followed
from elf.agents.sources.files.identity import holds, is_copy_of, is_older_copy, readable
from elf.agents.sources.files.rotation import GONE_MAX, Position, Seen, is_compressed_name
from elf.agents.sources.files.spool import Spools

#: Between two looks so far apart a log may have been rotated away several times.
STALLED_MS = 5_000


class Gap(msgspec.Struct, frozen=True):
    """Lines that may be lost, of a file or of those that came and went after it.

    Attributes:
        path: the file's.
        bytes: what is known to be lost; 0 if maybe nothing is.
        stream: the log whose file it is.
        file: its device and inode.
    """

    path: str
    bytes: int
    stream: str
    file: tuple[int, int]


class KnownFiles:
    """The files of some paths and globs.

    Args:
        patterns: absolute paths or globs; a file that is missing may appear later.
        from_end: files begin at their end that exist at the first look and were never read. Files that a plain path was
            rotated to before the first look are not read; those that a glob matches are.
        now_ms: the clock that says how long a file has been rotated; any origin.
        spools: the logs of our own among them.
        carrier: knows which lines those behind them need.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        from_end: bool,
        now_ms: Callable[[], int],
        spools: Spools,
        carrier: Carrier | None,
    ) -> None:
        self._patterns = patterns
        self._from_end = from_end
        self._now_ms = now_ms
        self._spools = spools
        #: May be set as long as nothing has been read.
        self.carrier = carrier
        #: Path -> why it cannot be read now; it is tried again at every look.
        self.errors: dict[str, str] = {}
        #: Totals since the start.
        self.gap_count = self.gap_bytes = 0
        self._gaps: list[Gap] = []
        #: Logs with files that were rotated away before the first look and are not read, until that is taken note of.
        self.begun_late: set[str] = set()
        #: Every known file that exists or existed, by device and inode.
        self.files: dict[tuple[int, int], Followed] = {}
        #: Files that are gone, and restored places whose file is not found yet.
        self._gone: list[Position] = []
        #: Files known to be copies of another that is still read itself: device and inode -> the other, and the size
        #: and time of change as of which that was found.
        self._copies: dict[tuple[int, int], tuple[Followed, tuple[int, int]]] = {}
        #: Files that were truncated while nobody looked, and where they were read to, until they are met.
        self._truncated: dict[tuple[int, int], Position] = {}
        #: Patterns that matched nothing at the last look.
        self._unmatched: list[str] = []
        #: Live path -> its files, oldest first, as of the last look.
        self.families: dict[str, list[Followed]] = {}
        self._looks = self._looked_ms = 0
        self._restored = False
        #: Logs whose files were read before other paths were given; None unless they were just now.
        self._known_logs: set[str] | None = None

    def restore(self, places: Iterable[Position], begun_late: Iterable[str] = ()) -> None:
        """Take up the `places` of a former run, and its `begun_late`; before the first look."""
        self._gone = list(places)
        self.begun_late = set(begun_late)
        self._restored = True

    def redirect(self, patterns: Sequence[str], *, from_end: bool) -> None:
        """Follow the files of other paths from the next look on, and find those anew that are of the same.

        Logs that are not among them are done with, read as far as they are; what they have beyond that is read if their
        path is given again.
        """
        lives = live_paths(patterns)[0]
        self._known_logs = {place.path for place in self.places()} | self.families.keys()
        for live in self.families.keys() - lives.keys():
            for file in self.families[live]:
                file.done = True
        self.begun_late -= self.families.keys() - lives.keys()
        self._gone = self.places()
        self.close()
        self.files = {}
        self.families = {}
        self._copies = {}
        self.errors = {}
        self._patterns = patterns
        self._from_end = from_end

    def places(self) -> list[Position]:
        """Return the places of all known files, those that are gone included."""
        aliases = [
            Followed(Seen(path=other.path, device=key[0], inode=key[1], size=0, mtime_ns=0), other.position).position
            for key, (other, _) in self._copies.items()
            if other.done
        ]
        return [file.position for file in self.files.values()] + aliases + self._gone

    @property
    def troubles(self) -> list[str]:
        """Why lines may be out of sight: files that cannot be read, paths with no file, as of the last look."""
        unreadable = [f"{path}: {reason}" for path, reason in sorted(self.errors.items())]
        return unreadable + [f"no file matches {pattern}" for pattern in self._unmatched]

    @property
    def waiting(self) -> set[str]:
        """Logs that had lines to read at the last look; a log with all files it was rotated to is one."""
        return {live for live, files in self.families.items() if any(file.waiting for file in files)}

    @property
    def is_new(self) -> bool:
        """Whether nobody has looked yet."""
        return self._looks == 0

    def take_gaps(self) -> list[Gap]:
        """Return the gaps found since the last call."""
        gaps = self._gaps
        self._gaps = []
        return gaps

    def look(self) -> None:
        """Look at the folders: new, rotated and vanished files."""
        first = self.is_new
        known_logs = self._known_logs
        self._known_logs = None
        self._looks += 1
        stalled = not first and self._now_ms() - self._looked_ms >= STALLED_MS
        self._looked_ms = self._now_ms()
        lives, self._unmatched, unreadable = live_paths(self._patterns)
        disks = {
            live: readable(family_on_disk(live, is_own=live in self._spools), asked)
            for live, asked in sorted(lives.items())
        }
        found = {seen.key for disk in disks.values() for seen in disk}
        self._forget(found)
        self._recognise(disks)
        families: dict[str, list[Followed]] = {}
        for live, disk in disks.items():
            # Files that were removed while we still read them are older than all that exist.
            former = self.families.get(live, [])
            removed = [file for file in former if file.key not in found and not file.done]
            for file in removed:
                self._rotated(file)
                unread = self._spools.unread(live, file.key[1], file.offset)
                if unread is not None:
                    file.done = True
                    if unread:
                        self.note_gap(file.position, live, unread)
                    continue
                if file.reader is None and file.waiting:
                    self.note_gap(file.position, live)  # it could not be opened, and cannot be any more
                    file.done = True
            if stalled and any(file.path == live and file.key not in found for file in former[-1:]):
                self.note_gap(former[-1].position, live)  # others may have come and gone after it
            new = first and not self._restored if known_logs is None else live not in known_logs
            known = removed + [self.files[seen.key] for seen in disk if seen.key in self.files]
            # The live file first: what others are depends on whether it is still the one we know.
            for seen in sorted(disk, key=lambda seen: seen.path != live):
                if seen.key not in self.files:
                    met = self._meet(seen, live, known, new, seen.path in lives[live])
                    known += [met] if met else []
            for seen in disk:
                if seen.key in self.files:
                    self._notice(self.files[seen.key], seen, rotated=seen.path != live)
            families[live] = removed + [self.files[seen.key] for seen in disk if seen.key in self.files]
        self.families = families
        self.errors = {path: why for path, why in self.errors.items() if os.path.exists(path)} | unreadable
        if first:
            for place in self._gone:
                if not place.done:
                    self.note_gap(place, rotation.live_of(place.path, families) or place.path)
        # Not before all files have been met: each of those that a former run knew may be one of them.
        del self._gone[:-GONE_MAX]

    def on_truncated(self, file: Followed, live: str) -> None:
        """Go on in the copy, if there is one, and with the file at its front."""
        if live in self._spools:
            # At its front are lines that were counted; what was acknowledged and is lost, its size does not say.
            self.note_gap(file.position, live)
            self._set_aside(file.seen, "was changed by somebody else")
            file.done = True
            file.close()
            return
        if file.resume_cut():
            self.note_gap(file.position, live)
            return
        place = file.position
        lost = file.begin_anew()
        for seen in family_on_disk(live, is_own=live in self._spools):
            if self._known(seen, live) is not None:
                continue
            if holds(seen, place):
                lost = 0
                file.needed.leave()
                copy = self._follow(seen, place)
            elif self._copies.get(seen.key, (None,))[0] is file or is_older_copy(seen, place):
                copy = self._follow(seen, None)  # it ends before our place, so all of it was read
                self._skip(copy, done=True)
            else:
                continue
            self._copies.pop(seen.key, None)
            copy.rotated_ms = self._now_ms()
            family = self.families[live]
            family.insert(family.index(file), copy)
        self.note_gap(place, live, lost)

    def note_gap(self, place: Position, live: str, lost: int = 0) -> None:
        """Note that lines may be lost of a log, in a file or after it; `lost`: bytes that are known to be."""
        self._gaps.append(Gap(place.path, lost, live, (place.device, place.inode)))
        self.gap_count += 1
        self.gap_bytes += lost

    def close(self) -> None:
        """Close all files; the places are kept."""
        for file in self.files.values():
            file.close()

    def _known(self, seen: Seen, live: str) -> Followed | None:
        """Return the file with this identity, unless its inode has been given to another since we closed it."""
        file = self.files.get(seen.key)
        if file is None or file.reader is not None or file.looked == (seen.size, seen.mtime_ns):
            return file
        if not file.offset and file.looked is not None and seen.size < file.looked[0]:
            self.note_gap(file.position, live)  # it could not be read, and is another now, or truncated
        # One that was empty has no text to be known by.
        same = holds(seen, file.position) if file.position.head_bytes else not file.done
        if same and seen.size >= file.offset:
            return file
        del self.files[seen.key]
        self._gone.append(file.position)
        return None

    def _recognise(self, disks: Mapping[str, Sequence[Seen]]) -> None:
        """Find the places of files that are not known: where a place's inode holds its text, else wherever its text is.

        Of all logs before any file is met, for inodes go from one to another. Rotated files first: what a live file has
        in common with one that was rotated away may be the first line only.
        """
        unknown = [(live, seen) for live, disk in disks.items() for seen in disk if self._known(seen, live) is None]
        places = {(place.device, place.inode): place for place in self._gone}
        for _, seen in unknown:
            place = places.get(seen.key)
            if place is not None and holds(seen, place):
                self._gone.remove(place)
                self._follow(seen, place)
        inodes = {seen.path: seen.key for _, seen in unknown}
        for live, seen in unknown:
            found = [] if seen.key in self.files else [place for place in self._gone if holds(seen, place)]
            if not found:
                continue
            # What more text was read of is told from others with more certainty.
            place = max(found, key=lambda place: place.offset)
            self._gone.remove(place)
            self._follow(seen, place)
            if (place.device, place.inode) == inodes.get(live) and not place.done:
                self.note_gap(place, live)  # truncated after it was copied, for all we know: maybe not at once
                self._truncated[place.device, place.inode] = place

    def _meet(self, seen: Seen, live: str, known: list[Followed], new: bool, matched: bool) -> Followed | None:
        """Decide what a file is that was not known before; None while it is not to be read (yet).

        `new`: nobody has looked at this log before; `matched`: the file itself is one of those that paths name.
        """
        if seen.path != live and (seen.size == 0 or self._is_copy(seen, known)):
            return None
        if seen.path in self._spools:
            if self._spools.may_read(seen):
                # A new one, whatever else has had its inode.
                self._gone = [place for place in self._gone if not self._spools.is_done_with(place, seen)]
                return self._follow(seen, None)
            self._set_aside(seen, "was replaced by somebody else")
            return None
        for place in self._gone:
            # It was truncated, which reading it will find out, or nothing was read of it.
            if (place.device, place.inode) == seen.key and not place.done and (seen.path == live or place.offset == 0):
                self._gone.remove(place)
                return self._follow(seen, place)
        file = self._follow(seen, None)
        if seen.key in self._truncated:
            file.needed.inherit(self._truncated.pop(seen.key))
        if new and (self._from_end or not matched):
            self._skip(file, done=seen.path != live)
            if seen.path != live and not self._from_end:
                self.begun_late.add(live)
        return file

    def _follow(self, seen: Seen, place: Position | None) -> Followed:
        file = self.files[seen.key] = Followed(seen, place, self._spools.limit(seen.path), self.carrier)
        return file

    def _set_aside(self, seen: Seen, why: str) -> None:
        """Have a spool begun anew that is not what was written; if that fails it is tried at the next look."""
        trouble = self._spools.set_aside(seen, why)
        if trouble is not None:
            self.errors[seen.path] = trouble

    def _skip(self, file: Followed, done: bool) -> None:
        """Begin at a file's end."""
        file.done = done
        try:
            file.skip_to_end()
        except OSError as error:
            self.errors[file.path] = error.strerror or str(error)
        if done:
            file.close()

    def _is_copy(self, seen: Seen, known: list[Followed]) -> bool:
        """Tell whether a rotated file repeats one that is still read itself: compressed, or copied to be truncated."""
        looked = (seen.size, seen.mtime_ns)
        before = self._copies.pop(seen.key, None)
        if before is not None and before[1] == looked:
            self._copies[seen.key] = before
            return True
        if is_compressed_name(seen.path) and os.path.exists(os.path.splitext(seen.path)[0]):
            return True  # it is still being written, and the original is removed at the end
        for other in known:
            if is_copy_of(seen, other):
                self._copies[seen.key] = other, looked
                return True
        return False

    def _rotated(self, file: Followed) -> None:
        file.rotated_ms = self._now_ms() if file.rotated_ms is None else file.rotated_ms

    def _notice(self, file: Followed, seen: Seen, rotated: bool) -> None:
        """Take notice of a file's new name, and of growth after it was done with."""
        file.path = seen.path
        file.seen = seen
        looked = (seen.size, seen.mtime_ns)
        # Somebody is still copying or compressing it, or writes to it in spite of its name: half lines may be so yet.
        grows = file.looked not in (None, looked)
        if grows or not rotated:
            file.rotated_ms = None
        if rotated:
            self._rotated(file)
        if file.done and file.has_more(seen):
            file.done = False
        file.looked = looked

    def _forget(self, found: set[tuple[int, int]]) -> None:
        """Forget files that are gone and done with, except for the newest places: they may come back compressed."""
        for key, file in list(self.files.items()):
            if key not in found and file.done:
                file.close()
                del self.files[key]
                self._gone.append(file.position)
        self._copies = {key: copy for key, copy in self._copies.items() if key in found}
