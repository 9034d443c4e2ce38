"""Wrap anew the paragraphs of docstrings and comments in which ruff finds a line too long (E501)."""

from __future__ import annotations

import ast
import json
import pathlib
import re
import subprocess
import textwrap

WIDTH = 120
PREFIX = re.compile(r"\s*(?:#:?\s+)?")


def prose(source: str) -> set[int]:
    """Return the lines of a source that are of docstrings, or comments."""
    rows = {row for row, line in enumerate(source.split("\n"), 1) if line.strip().startswith("#")}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                rows |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return rows


def main() -> None:
    """Wrap them."""
    ruff = pathlib.Path(".venv/bin/ruff")
    command = [str(ruff), "check", "--select", "E501", "--output-format", "json", "."]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    where = {(each["filename"], each["location"]["row"]) for each in json.loads(told)}
    for name, row in sorted(where, reverse=True):
        path = pathlib.Path(name)
        lines = path.read_text().splitlines()
        if len(lines[row - 1]) <= WIDTH or row not in prose("\n".join(lines)):
            continue
        first = PREFIX.match(lines[row - 1])
        assert first is not None
        prefix = first[0]
        end = row
        opens = prefix.strip() == "" and '"""' in lines[row - 1]
        while not opens and end < len(lines) and len(lines[end - 1]) >= WIDTH * 0.6:
            following = lines[end]
            found = PREFIX.match(following)
            text = following.strip()
            if found is None or found[0] != prefix or not text or text.startswith(('"""', "- ")):
                break
            end += 1
            if '"""' in following or re.match(r"\w+: ", following.strip()):
                end -= '"""' not in following or following.strip() == '"""'
                break
        paragraph = " ".join(line[len(prefix) :].strip() for line in lines[row - 1 : end])
        wrapped = textwrap.wrap(paragraph, WIDTH - len(prefix), break_long_words=False, break_on_hyphens=False)
        lines[row - 1 : end] = [prefix + line for line in wrapped]
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
