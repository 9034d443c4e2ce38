"""How long files and functions are, how much they import and how many arguments they take: questions and errors."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

from tests.house.modules import ROOT, own_imports, parse, sources

#: A longer file is a question: is it one concept?
FILE_LINES_ASKED = 400
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
#: Of modules of the product.
IMPORTS_MAX = 25
ARGUMENTS_MAX = 8


def functions(path: pathlib.Path) -> Iterator[tuple[str, int]]:
    """Return each function of a module, and how many lines it has."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def constructors(path: pathlib.Path) -> Iterator[tuple[str, int]]:
    """Return each class of a module that has a constructor, and how many arguments that takes beside `self`."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    arguments = each.args
                    yield node.name, len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs) - 1


def packed(path: pathlib.Path) -> Iterator[int]:
    """Return the lines at which several attributes are assigned at a time."""
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple) and any(isinstance(each, ast.Attribute) for each in target.elts):
                yield node.lineno


def long_files() -> list[tuple[str, int]]:
    """Return the files that are a question, with their lines, the longest first."""
    sizes = [(str(path.relative_to(ROOT)), len(path.read_text().splitlines())) for path in sources()]
    return sorted((each for each in sizes if each[1] > FILE_LINES_ASKED), key=lambda each: -each[1])


def entangled() -> list[tuple[str, int]]:
    """Return the files that import too much of the product."""
    counts = [(str(path.relative_to(ROOT)), len(own_imports(path))) for path in sources()]
    return [each for each in counts if each[1] > IMPORTS_MAX]


def overloaded() -> list[tuple[str, str, int]]:
    """Return the classes whose constructors take too much."""
    return [
        (str(path.relative_to(ROOT)), name, count)
        for path in sources()
        for name, count in constructors(path)
        if count > ARGUMENTS_MAX
    ]
