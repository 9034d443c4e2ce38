"""With and without the kernels in C, for tests that hold what they compute to what NumPy does."""

from __future__ import annotations

import pytest

import elf.cbt.fusing
import elf.cbt.hashing
import elf.cbt.packing
import elf.cbt.patching
import elf.cbt.reducing
import elf.cbt.rows
import elf.cbt.strings
from elf.cbt.native import Kernels, kernels

USERS = [
    elf.cbt.fusing,
    elf.cbt.hashing,
    elf.cbt.packing,
    elf.cbt.patching,
    elf.cbt.reducing,
    elf.cbt.rows,
    elf.cbt.strings,
]


def without_kernels(patch: pytest.MonkeyPatch) -> None:
    """Let NumPy do all the work."""
    for module in USERS:
        patch.setattr(module, "kernels", None)


def built() -> Kernels:
    """The kernels, which `scripts/setup --test` has seen to."""
    assert kernels is not None, "the kernels have not been built"
    return kernels
