"""With and without the kernels in C, for tests that hold what they compute to what NumPy does."""

from __future__ import annotations

import pytest

import cbt.fusing
import cbt.hashing
import cbt.packing
import cbt.patching
import cbt.reducing
import cbt.rows
import cbt.strings
from cbt.native import Kernels, kernels

USERS = [cbt.fusing, cbt.hashing, cbt.packing, cbt.patching, cbt.reducing, cbt.rows, cbt.strings]


def without_kernels(patch: pytest.MonkeyPatch) -> None:
    """Let NumPy do all the work."""
    for module in USERS:
        patch.setattr(module, "kernels", None)


def built() -> Kernels:
    """The kernels, which `scripts/setup --test` has seen to."""
    assert kernels is not None, "the kernels have not been built"
    return kernels
