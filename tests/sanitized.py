"""Run tests with kernels of another build: `python -m tests.sanitized KERNELS [arguments of pytest]`."""

from __future__ import annotations

import importlib.util
import sys

import pytest

NAME = "elf.agents.sources.native._kernels"


def install(file: str) -> None:
    """Put the kernels of a file in the place of those that are installed, before anybody has loaded these."""
    spec = importlib.util.spec_from_file_location(NAME, file)
    assert spec is not None and spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    sys.modules[NAME] = kernels


def main(file: str, *arguments: str) -> int:
    """Run tests with the kernels of a file; returns their exit code."""
    install(file)
    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *arguments]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
