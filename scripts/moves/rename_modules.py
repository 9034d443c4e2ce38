"""Rename and move modules throughout the checkout: imports, dotted names in texts, files, and paths named in texts.

    python scripts/moves/rename_modules.py MAP.json [CHECKOUT]      # then: ruff check --fix, ruff format

`MAP.json` holds `modules` (old dotted name to new, a folder's name moving all below it), `packages` (names of folders
whose modules go to several places), `files` (old path to new, for what is no module; null: it goes) and `paths` (texts
in documents to replace). Run on another branch it does there what it did here, so
that the two can be merged. It proves itself: every file's syntax tree must be what it was, but for imports, names that
imports bind, and texts that name modules; what differs otherwise stops it before anything is written.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Collection

ROOTS = ("elf", "agents", "overlay", "cbt")
TEXT_ENDINGS = {".md", ".toml", ".txt", ".json", ".yml", ".sh", ".c", ".h", ".cpp", ""}
DOTTED = re.compile(r"(?<![\w./-])(?:elf\.)?(?:agents|overlay|cbt|elf|tests)(?:\.[A-Za-z_]\w*)+")


class Renaming:
    """The renaming of modules that a map asks for."""

    def __init__(self, modules: dict[str, str], known: set[str]) -> None:
        self.modules = modules
        self.known = known

    def module(self, name: str) -> str:
        """Return a module's new name; the longest part of the map that it begins with decides."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            head = ".".join(parts[:count])
            if head in self.modules:
                return ".".join([self.modules[head], *parts[count:]])
        return name

    def text(self, text: str) -> str:
        """Return a text with the modules that it names renamed."""

        def put(found: re.Match[str]) -> str:
            parts = found[0].split(".")
            for count in range(len(parts), 1, -1):
                head = ".".join(parts[:count])
                if head in self.known:
                    return ".".join([self.module(head), *parts[count:]])
            return found[0]

        return DOTTED.sub(put, text)


def imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Return a module's import statements, wherever they stand."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def rewritten(
    node: ast.Import | ast.ImportFrom, renaming: Renaming, used: Collection[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the statements that take an import's place, and the names that it bound and that change.

    A module whose new name is `used` for something else keeps its old one.
    """
    bound: dict[str, str] = {}
    lines: list[str] = []
    if isinstance(node, ast.Import):
        for alias in node.names:
            new = renaming.module(alias.name)
            lines.append(f"import {new}" + (f" as {alias.asname}" if alias.asname else ""))
            if new != alias.name and not alias.asname:
                bound[alias.name] = new
        return lines, bound
    assert node.module is not None
    by_module: dict[str, list[str]] = {}
    for alias in node.names:
        whole = f"{node.module}.{alias.name}"
        if whole in renaming.known:
            module, _, leaf = renaming.module(whole).rpartition(".")
            if leaf != alias.name and not alias.asname and leaf in used:
                leaf = f"{leaf} as {alias.name}"
            elif leaf != alias.name and not alias.asname:
                bound[alias.name] = leaf
        else:
            module, leaf = renaming.module(node.module), alias.name
        by_module.setdefault(module, []).append(leaf + (f" as {alias.asname}" if alias.asname else ""))
    return [f"from {module} import {', '.join(names)}" for module, names in by_module.items()], bound


def rewrite(path: pathlib.Path, source: str, renaming: Renaming) -> str:
    """Return a module's source with all names renamed."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    names_used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names_used |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound: dict[str, str] = {}
    #: Imports stand aside while the texts are renamed: what they say is new already.
    aside: dict[str, str] = {}
    for node in sorted(imports(tree), key=lambda node: -node.lineno):
        if isinstance(node, ast.ImportFrom) and (node.module is None or node.level):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if not any(name.split(".")[0] in (*ROOTS, "tests") for name in names):
            continue
        new, changes = rewritten(node, renaming, names_used)
        bound |= changes
        end = node.end_lineno or node.lineno
        head = lines[node.lineno - 1][: node.col_offset]
        tail = lines[end - 1].encode()[node.end_col_offset :].decode()
        assert not head.strip(), f"{path}:{node.lineno}: an import behind something"
        mark = f"import_{node.lineno}_aside"
        aside[head + mark + tail] = "".join(head + line + (tail if line is new[-1] else "\n") for line in new)
        lines[node.lineno - 1 : end] = [head + mark + tail]
    text = renaming.text(renamed("".join(lines), bound))
    for mark, statements in aside.items():
        assert mark in text, f"{path}: {mark}"
        text = text.replace(mark, statements)
    return text


def renamed(source: str, bound: dict[str, str]) -> str:
    """Return a source with the names that imports bind renamed where they are used."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    places = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in bound:
            places.append((node.lineno - 1, node.col_offset, node.end_col_offset or 0, ast.unparse(node)))
    for row, start, end, name in sorted(places, reverse=True):
        lines[row] = lines[row][:start] + bound[name].encode() + lines[row][end:]
    return b"".join(lines).decode()


class Bare(ast.NodeTransformer):
    """A syntax tree without imports, and with the texts and names that renaming may change made alike."""

    def __init__(self, renaming: Renaming | None) -> None:
        self.renaming = renaming

    def visit_Import(self, node: ast.Import) -> None:
        """Leave out."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Leave out."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """Rename in texts."""
        if isinstance(node.value, str) and self.renaming is not None:
            return ast.Constant(self.renaming.text(node.value))
        return node


def bare(source: str, renaming: Renaming | None, bound: dict[str, str]) -> str:
    """Return what of a module must stay as it is."""
    dumped = ast.dump(Bare(renaming).visit(ast.parse(source)))
    for old, new in bound.items():
        was, now = (ast.dump(ast.parse(name, mode="eval").body) for name in (old, new))
        dumped = dumped.replace(was, now)
    return dumped


def known_modules(root: pathlib.Path) -> set[str]:
    """Return the dotted names of all modules and packages, below `elf` and as the folders stand."""
    names = set()
    for top in (*ROOTS, "tests"):
        for path in (root / top).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            names |= {name, f"elf.{name}"} if top in ("agents", "overlay", "cbt") else {name}
            while "." in name:
                name = name.rpartition(".")[0]
                names |= {name, f"elf.{name}"} if top in ("agents", "overlay", "cbt") else {name}
    return names


def tracked(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the files that git knows, links left out."""
    told = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True).stdout
    files = [root / name for name in told.split("\0") if name]
    return [path for path in files if path.is_file() and not path.is_symlink()]


def file_of(root: pathlib.Path, module: str) -> pathlib.Path:
    """Return where a module's file or folder stands: `elf.agents.x` is `agents/x`."""
    parts = module.split(".")
    if parts[0] == "elf" and len(parts) > 1 and parts[1] in ("agents", "overlay", "cbt"):
        parts = parts[1:]
    return root.joinpath(*parts)


def move(root: pathlib.Path, old: pathlib.Path, new: pathlib.Path) -> None:
    """Move a file or folder as git does."""
    if not old.exists():
        print(f"not there: {old.relative_to(root)}")
        return
    new.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "mv", "-k", str(old), str(new)], cwd=root, check=True)


def main(map_path: pathlib.Path, root: pathlib.Path) -> None:
    """Do what the map says."""
    plan = json.loads(map_path.read_text())
    renaming = Renaming(plan.get("packages", {}) | plan.get("modules", {}), known_modules(root))
    files = [path for path in tracked(root) if "moves" not in path.relative_to(root).parts]
    changed: dict[pathlib.Path, str] = {}
    for path in files:
        if path.suffix != ".py" and path.suffix not in TEXT_ENDINGS:
            continue
        try:
            before = path.read_text()
        except UnicodeDecodeError:
            continue
        if path.suffix == ".py":
            after = rewrite(path, before, renaming)
            changes: dict[str, str] = {}
            used = {each.id for each in ast.walk(ast.parse(before)) if isinstance(each, ast.Name)}
            used |= {each.arg for each in ast.walk(ast.parse(before)) if isinstance(each, ast.arg)}
            for node in imports(ast.parse(before)):
                if isinstance(node, ast.Import) or (node.module and not node.level):
                    changes |= rewritten(node, renaming, used)[1]
            if bare(before, renaming, changes) != bare(after, None, {}):
                print(f"syntax differs: {path.relative_to(root)}")
        else:
            after = renaming.text(before)
        for old, new in plan.get("paths", {}).items():
            after = re.sub(rf"(?<![\w/]){re.escape(old)}(?![\w])", new, after)
        if after != before:
            changed[path] = after
    for path, text in changed.items():
        path.write_text(text)
    for old, new in plan.get("modules", {}).items():
        before_path, after_path = file_of(root, old), file_of(root, new)
        if before_path == after_path:
            continue
        if before_path.with_suffix(".py").is_file():
            move(root, before_path.with_suffix(".py"), after_path.with_suffix(".py"))
        elif before_path.is_dir():
            move(root, before_path, after_path)
    for old, new in plan.get("files", {}).items():
        if new is None:
            subprocess.run(["git", "rm", "-qf", old], cwd=root, check=True)
        else:
            move(root, root / old, root / new)
    for new, text in plan.get("packages_made", {}).items():
        path = root / new / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""{text}"""\n')
        subprocess.run(["git", "add", str(path)], cwd=root, check=True)
    print(f"{len(changed)} files changed")


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parents[2]
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else here)
