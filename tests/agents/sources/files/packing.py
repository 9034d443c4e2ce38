"""What tests compress with: every compression that logs come in, by the ending of its files' names."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
from collections.abc import Callable

import lz4.frame

from elf.agents.sources.files.compression import BZIP2, GZIP, LZ4, XZ, ZSTD


def _zstd(data: bytes) -> bytes:
    try:
        library = importlib.import_module("compression.zstd")
    except ImportError:
        library = importlib.import_module("backports.zstd")
    packed: bytes = library.compress(data)
    return packed


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lz4": lz4.frame.compress,
    ".zst": _zstd,
}
KINDS = {".gz": GZIP, ".bz2": BZIP2, ".xz": XZ, ".lz4": LZ4, ".zst": ZSTD}


def skippable(data: bytes, number: int = 0) -> bytes:
    """A frame of zstd or lz4 that holds something else than text."""
    return bytes([0x50 + number]) + b"\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data
