"""The product's modules as their texts show them: what each imports, its docstring, its size."""

from __future__ import annotations

import ast
import functools
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
#: The folders at the top. Installed, they are `elf` and `elf.agents`, `elf.overlay`, `elf.cbt`.
PACKAGES = ("elf", "agents", "overlay", "cbt")


@functools.cache
def parse(path: pathlib.Path) -> ast.Module:
    """Return a module's syntax tree."""
    return ast.parse(path.read_text(), str(path))


@functools.cache
def sources() -> tuple[pathlib.Path, ...]:
    """Return the product's modules; the links from `elf` to the other folders are not followed."""
    return tuple(sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")))


def name_of(path: pathlib.Path) -> str:
    """Return a module's dotted name: `agents/wire/request.py` is `elf.agents.wire.request`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "elf" else ("elf", *parts))


@functools.cache
def names() -> dict[str, pathlib.Path]:
    """Return the file of each module, by its dotted name."""
    return {name_of(path): path for path in sources()}


@functools.cache
def imported(path: pathlib.Path) -> tuple[str, ...]:
    """Return the dotted names of all modules that a module imports, wherever in it; those of a package by their own."""
    found: list[str] = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            inner = [f"{module}.{alias.name}" for alias in node.names]
            found += [each for each in inner if each in names()]
            found += [module] if any(each not in names() for each in inner) else []
    return tuple(sorted(set(found)))


def own_imports(path: pathlib.Path) -> list[str]:
    """Return which modules of the product a module imports."""
    return [each for each in imported(path) if each in names()]


def top(module: str) -> str:
    """Return the folder at the top that a module is below: `elf.agents.x` is of `agents`, `elf.cli.x` of `elf`."""
    parts = module.split(".")
    return parts[1] if parts[0] == "elf" and len(parts) > 1 and parts[1] in PACKAGES else parts[0]
