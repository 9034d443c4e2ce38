"""Packages of functions and applications, made known to agents that are started from here, without pip."""

from __future__ import annotations

import os
import pathlib
import tomllib


def install(folder: pathlib.Path, *packages: pathlib.Path) -> None:
    """Let all processes that are started from here on find packages, as `pip install` would.

    Args:
        folder: where their metadata goes; it has to stay.
        packages: folders with a `pyproject.toml` and the modules that its entry points name.
    """
    for package in packages:
        project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
        info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        named = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(named)
        lines = [
            line
            for group, points in project["entry-points"].items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    before = os.environ.get("PYTHONPATH")
    paths = [str(folder), *map(str, packages), *([before] if before else [])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
