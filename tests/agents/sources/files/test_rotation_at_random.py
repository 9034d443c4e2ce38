"""Two logs under rotation of every style, with crashes and pauses in any order: no line twice, none lost in silence."""

from __future__ import annotations

import collections
import gzip
import os
import random
import shutil
from pathlib import Path

import pytest

from elf.agents.sources.files.tail import Tail

SEEDS, STEPS, KEPT = 60, 40, 60
STYLES = ("numbers", "numbers, compressed late", "dates", "dates, compressed late")


class Site:
    """A folder of logs, who writes and rotates them, and a tail that may be killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.style, self.names = self.random.choice(STYLES), self.random.choice((["a.log"], ["a.log", "bb.log"]))
        self.now_ms = self.day = self.count = self.gaps = 0
        self.written: list[bytes] = []
        self.read: list[bytes] = []
        self.half: dict[str, bytes] = {}
        self.tail = self._tail()
        self.saved = self.tail.positions(), 0, 0

    def _tail(self) -> Tail:
        patterns = [str(self.folder / ("*.log*" if len(self.names) > 1 else "a.log"))]
        return Tail(patterns, now_ms=lambda: self.now_ms)

    def line(self) -> bytes:
        self.count += 1
        self.written.append(b"%06d" % self.count)
        return self.written[-1] + b" " + b"x" * self.random.choice((0, 3, 50, 400)) + b"\n"

    def append(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(data)

    def write(self, name: str) -> None:
        lines = [self.line() for _ in range(self.random.choice((1, 3, 20)))]
        self.append(name, self.half.pop(name, b"") + b"".join(lines))

    def begin_line(self, name: str) -> None:
        if name not in self.half:
            line = self.line()
            at = self.random.randrange(1, len(line))
            self.append(name, line[:at])
            self.half[name] = line[at:]

    def rename(self, name: str) -> None:
        (self.folder / name).rename(self._make_room(name))
        (self.folder / name).touch()

    def copy_and_truncate(self, name: str) -> None:
        shutil.copyfile(self.folder / name, self._make_room(name))
        os.truncate(self.folder / name, 0)

    def _make_room(self, name: str) -> Path:
        """Shift and compress what was rotated before, as logrotate does; return the name for what comes."""
        self.append(name, self.half.pop(name, b""))
        log, compressed = self.folder / name, self.style.endswith("late")
        if self.style.startswith("dates"):
            self.day += 1
            for old in sorted(self.folder.glob(name + "-*")) if compressed else ():
                if old.suffix != ".gz":
                    _compress(old)
            return Path(f"{log}-202611{self.day:02}")
        for number in range(KEPT, 0, -1):
            for ending in ("", ".gz"):
                if (old := Path(f"{log}.{number}{ending}")).exists():
                    old.rename(f"{log}.{number + 1}{ending}")
        if compressed and (old := Path(f"{log}.2")).exists():
            _compress(old)
        return Path(f"{log}.1")

    def look(self, _: str) -> None:
        self._take(self.random.choice((64, 256, 4096)))
        self.now_ms += 100

    def drain(self, _: str = "") -> None:
        while self._take(1 << 16):
            pass

    def _take(self, bytes_max: int) -> bool:
        chunk = self.tail.read(bytes_max)
        self.gaps += len(self.tail.take_gaps())
        self.read += [line.split()[0] for line in chunk.data.splitlines()] if chunk else []
        return chunk is not None

    def save(self, _: str) -> None:
        self.saved = self.tail.positions(), len(self.read), self.gaps

    def kill(self, _: str) -> None:
        self.tail.close()
        self.tail = self._tail()
        positions, lines, self.gaps = self.saved
        self.tail.restore(positions)
        del self.read[lines:]

    def wait(self, _: str) -> None:
        self.now_ms += 6_000


def _compress(path: Path) -> None:
    status, copy = path.stat(), path.with_name(path.name + ".gz")
    copy.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(copy, ns=(status.st_mtime_ns, status.st_mtime_ns))
    path.unlink()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_line_is_read_twice_and_none_lost_without_a_gap(tmp_path: Path, seed: int) -> None:
    site = Site(tmp_path, seed)
    acts = {
        site.write: 6,
        site.begin_line: 1,
        site.look: 4,
        site.drain: 3,
        site.save: 3,
        site.rename: 2,
        site.copy_and_truncate: 1,
        site.kill: 1.5,
        site.wait: 2,
    }
    for name in site.names:
        site.write(name)
    site.drain()
    site.save("")
    for _ in range(STEPS):
        (act,) = site.random.choices([*acts], [*acts.values()])
        act(site.random.choice(site.names))
    for name, rest in site.half.items():
        site.append(name, rest)
    for _ in range(4):
        site.drain()
        site.now_ms += 6_000
    site.tail.close()
    written, read = collections.Counter(site.written), collections.Counter(site.read)
    assert not read - written, "read twice"
    assert site.gaps or not written - read, "lost"
