"""Packages of functions for tests: a module and its metadata in a folder, as pip would leave them."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from elf.agents.language.installed import installed

EXAMPLE = Path(__file__).parent.parent / "examples" / "functions"


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, points: Mapping[str, str], modules: Mapping[str, str]
) -> None:
    """Put a package into a folder and have what is installed looked for again, now and after the test."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{function} = {value}\n" for function, value in points.items()]
    (info / "entry_points.txt").write_text("[elf.functions]\n" + "".join(lines))
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    monkeypatch.setattr(installed, "_installed", None)


def install_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install the example; return its job's SQL."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    modules = {"shop_functions": (EXAMPLE / "shop_functions.py").read_text()}
    install(folder, monkeypatch, project["name"], project["entry-points"][installed.GROUP], modules)
    return (EXAMPLE / "job.sql").read_text()
