"""Give each attribute an assignment of its own: `self.a, self.b = x, y` becomes two lines.

Left as they are: where a value may depend on what was assigned before it (a swap, a call of a method), which a reader
has to look at anyway.
"""

from __future__ import annotations

import ast
import pathlib
import sys


def independent(node: ast.Assign) -> bool:
    """Whether the values of an assignment may be computed one after the other, with assignments in between."""
    target, value = node.targets[0], node.value
    assert isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    for index, each in enumerate(target.elts):
        written = ast.unparse(each)
        root = written.split(".")[0].split("[")[0]
        for later in value.elts[index + 1 :]:
            for part in ast.walk(later):
                if isinstance(part, ast.Name | ast.Attribute | ast.Subscript) and ast.unparse(part) == written:
                    return False
                if isinstance(part, ast.Call):
                    called = ast.unparse(part)
                    if called.startswith(f"{root}.") or f"({root})" in called or f"({root}," in called:
                        return False
                    if f" {root})" in called or f" {root}," in called:
                        return False
                if isinstance(part, ast.Lambda | ast.Await):
                    return False
    return True


def unpack(path: pathlib.Path) -> int:
    """Unpack a file's assignments; returns how many."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    count = 0
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)]
    for node in sorted(nodes, key=lambda node: -node.lineno):
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
            continue
        if not any(isinstance(each, ast.Attribute) for each in target.elts):
            continue
        if len(target.elts) != len(node.value.elts) or not independent(node):
            print(f"{path}:{node.lineno}: {ast.unparse(node)}")
            continue
        end = node.end_lineno or node.lineno
        text = "".join(lines[node.lineno - 1 : end])
        if "#" in text:
            print(f"{path}:{node.lineno}: a comment")
            continue
        indent = lines[node.lineno - 1][: node.col_offset]
        pairs = zip(target.elts, node.value.elts, strict=True)
        segments = [(ast.get_source_segment(source, a), ast.get_source_segment(source, b)) for a, b in pairs]
        lines[node.lineno - 1 : end] = [f"{indent}{a} = {b}\n" for a, b in segments]
        count += 1
    if count:
        path.write_text("".join(lines))
    return count


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = [path for package in ("elf", "agents", "overlay", "cbt") for path in (root / package).rglob("*.py")]
    print(sum(map(unpack, sorted(files))), "assignments")
