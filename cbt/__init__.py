"""The data structure: partial aggregation objects (PAOs), their laws, their bytes, and the buffer tree that holds them.

Paper: section 2.1 (CBTs). This package knows nothing of agents, jobs, networks or clocks.
"""

from elf.cbt.codec import BLOCK_BYTES_MAX, PaoDecodeError, claimed_bytes, decode, encode
from elf.cbt.partitions import partitions_of, split
from elf.cbt.schema import INTERVAL, PaoSchema
from elf.cbt.settings import TreeSettings
from elf.cbt.tree import BufferTree

__all__ = [
    "BLOCK_BYTES_MAX",
    "INTERVAL",
    "BufferTree",
    "PaoDecodeError",
    "PaoSchema",
    "TreeSettings",
    "claimed_bytes",
    "decode",
    "encode",
    "partitions_of",
    "split",
]
