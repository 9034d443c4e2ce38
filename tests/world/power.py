"""What the loss of power and a bad spot leave of a disk: what was not synced is old, one bit is another.

All agents' transactions are synced before anybody hears of them, so they stay; the mark beside a state file is not.
"""

from __future__ import annotations

import pathlib
import random

from elf.agents.store.mark import Mark

#: A mark may be behind by so many transactions.
BEHIND_MAX = 40


def age_mark(folder: pathlib.Path, rng: random.Random) -> str:
    """Leave an older mark than was written last, an empty one or none; returns which."""
    path = folder / "state.mark"
    mark = Mark(path)
    known = mark.read() if path.exists() else None
    kind = rng.choice(("as it is", "older", "older", "empty", "none"))
    if known is None or kind == "as it is":
        return "as it is"
    if kind == "none":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        mark.write(known[0], max(0, known[1] - rng.randint(1, BEHIND_MAX)))
        mark.close()
    return kind


def flip_bit(folder: pathlib.Path, rng: random.Random) -> str | None:
    """Flip a bit of one of an agent's files, mostly of what was written last; returns where, None without a file."""
    files = [path for path in sorted(folder.glob("state.*")) if path.is_file() and path.stat().st_size]
    if not files:
        return None
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    recent = min(len(data), 1 << 15)
    at = rng.randrange(len(data) - recent, len(data)) if rng.random() < 0.5 else rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"{path.name}:{at} of {len(data)}"
