"""How large the parts of a buffer tree are, and what each choice costs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from elf.cbt.words import ROWS_MAX

Codec = Literal["lz4", "lz4hc", "none"]
CODECS: tuple[Codec, ...] = ("lz4", "lz4hc", "none")


class TreeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one buffer tree; the defaults suit a web server's agent.

    Attributes:
        root_rows: rows that collect uncompressed before they are sorted, reduced and pushed down. More rows find more
            equal keys among themselves and cut into longer pieces, so inserts get cheaper; they cost 10 to 35
            bytes each, for every tree that is in use.
        node_rows: rows in an inner node's buffer before it is pushed down. More means fewer rewrites and more memory
            while one is being pushed down.
        leaf_rows: keys in a leaf before it splits. Larger leaves mean a flatter tree; one leaf at a time is unpacked.
        block_rows: rows of one compressed block of a leaf. Smaller blocks spill and unpack in smaller steps, and
            narrow their columns better; each costs some 200 bytes and 50 microseconds.
        fan_out: most children of an inner node (b); all but the root have at least half of that (a). A wide tree
            rewrites a row fewer times, in smaller pieces.
        codec: what packed columns are compressed with: `lz4` costs next to nothing and helps where values repeat;
            `lz4hc` packs some percent tighter and inserts at a fraction of the speed; `none` leaves them packed.
        memory_bytes_max: compressed bytes kept in memory; above it the oldest blocks spill to disk. None: no bound.
        spill_folder: where blocks spill to; needed with `memory_bytes_max`.
    """

    root_rows: int = 65_536
    node_rows: int = 65_536
    leaf_rows: int = 65_536
    block_rows: int = 8_192
    fan_out: int = 32
    codec: Codec = "lz4"
    memory_bytes_max: int | None = None
    spill_folder: Path | None = None

    def __post_init__(self) -> None:
        for field in ("root_rows", "node_rows", "leaf_rows", "block_rows"):
            value = getattr(self, field)
            if not 1 <= value <= ROWS_MAX // 8:
                raise ValueError(f"{field} is {value}; it has to be between 1 and {ROWS_MAX // 8}")
        if not 3 <= self.fan_out <= 1024:
            raise ValueError(f"fan_out is {self.fan_out}; it has to be between 3 and 1024")
        if self.codec not in CODECS:
            raise ValueError(f"codec is {self.codec!r}; use one of {', '.join(CODECS)}")
        if self.memory_bytes_max is not None and (self.memory_bytes_max < 1 or self.spill_folder is None):
            raise ValueError("memory_bytes_max has to be positive, and needs a spill_folder")

    def divided(self, share: int) -> TreeSettings:
        """The same sizes in bytes for rows that are so many times as wide."""
        names = ("root_rows", "node_rows", "leaf_rows", "block_rows")
        return msgspec.structs.replace(self, **{name: max(1, getattr(self, name) // share) for name in names})


def weight_of(words: int) -> int:
    """How many ordinary rows a row with keys of so many words stands for; up to 15 words it is one."""
    return max(1, words // 8)
