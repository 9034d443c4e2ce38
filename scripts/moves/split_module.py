"""Split a module: its definitions go to several new ones, and every import of them follows.

    python scripts/moves/split_module.py MAP.json [CHECKOUT]        # then: ruff check --fix, ruff format

`MAP.json`: `module`, the dotted name of the one that is split (or null: only imports follow), and `into`: new dotted
name -> `{"docstring": ..., "names": [...]}`. Each new file gets all imports of the old one, of which ruff removes what
it does not use, and imports what it needs of its siblings.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
import subprocess
import sys


def path_of(root: pathlib.Path, module: str) -> pathlib.Path:
    """Return a module's file: `elf.agents.x` is `agents/x.py`."""
    parts = module.split(".")
    return root.joinpath(*parts[1:]).with_suffix(".py")


def definitions(source: str) -> dict[str, str]:
    """Return the text of each definition at a module's top, with the comments above it, by its name."""
    lines = source.splitlines(keepends=True)
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        if not names:
            continue
        decorators = getattr(node, "decorator_list", [])
        start = min([node.lineno, *(each.lineno for each in decorators)]) - 1
        while start and lines[start - 1].startswith("#"):
            start -= 1
        found |= dict.fromkeys(names, "".join(lines[start : node.end_lineno]))
    return found


def split(root: pathlib.Path, module: str, into: dict[str, dict[str, object]]) -> None:
    """Write the new files, and remove the old one."""
    old = path_of(root, module)
    source = old.read_text()
    texts = definitions(source)
    imports = [
        ast.get_source_segment(source, node)
        for node in ast.parse(source).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    homes = {name: new for new, what in into.items() for name in what["names"]}  # type: ignore[attr-defined]
    missing = set(texts) - set(homes)
    assert not missing, f"no place for {sorted(missing)}"
    for new, what in into.items():
        body = [texts[name] for name in texts if homes[name] == new]
        if not body:
            continue
        used = set(re.findall(r"\w+", "".join(body)))
        siblings = [f"from {homes[name]} import {name}" for name in texts if name in used and homes[name] != new]
        head = f'"""{what["docstring"]}"""\n\n'
        target = path_of(root, new)
        assert not target.exists(), target
        target.write_text(head + "\n".join([*filter(None, imports), *siblings]) + "\n\n" + "\n\n".join(body))
    old.unlink()


def follow(root: pathlib.Path, module: str, into: dict[str, dict[str, object]]) -> None:
    """Let all imports of the old module's names follow."""
    homes = {name: new for new, what in into.items() for name in what["names"]}  # type: ignore[attr-defined]
    pattern = re.compile(rf"^(\s*)from {re.escape(module)} import (\([^)]*\)|[^\n#]*)", re.MULTILINE)

    def put(found: re.Match[str]) -> str:
        names = [name.strip() for name in found[2].strip("()").replace("\n", " ").split(",") if name.strip()]
        lines = [f"{found[1]}from {homes[name.split(' ')[0]]} import {name}" for name in names]
        return "\n".join(lines)

    told = subprocess.run(["git", "ls-files", "*.py"], cwd=root, capture_output=True, check=True, text=True).stdout
    for name in told.split():
        path = root / name
        if path.is_file() and not path.is_symlink():
            text = path.read_text()
            after = pattern.sub(put, text)
            if after != text:
                path.write_text(after)


def main(map_path: pathlib.Path, root: pathlib.Path) -> None:
    """Do what the map says."""
    plan = json.loads(map_path.read_text())
    split(root, plan["module"], plan["into"])
    subprocess.run(["git", "add", "-A", "agents"], cwd=root, check=True)
    follow(root, plan["module"], plan["into"])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve())
