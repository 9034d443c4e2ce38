"""`python -m tests.house`: prints the layers that are crossed, and the files that are a question.

With `--graph` it prints the layers of an agent and who imports whom, for Graphviz (`... | dot -Tsvg`).
"""

from __future__ import annotations

import sys

from tests.house.layers import LAYERS, crossings, uses
from tests.house.sizes import entangled, long_files, overloaded


def main() -> None:
    """Print them; nothing where there is nothing to say."""
    if sys.argv[1:] == ["--graph"]:
        print("digraph agents {\n  rankdir=BT")
        for here in reversed(LAYERS):
            print("".join(f'  "{here}" -> "{there}"\n' for there in uses()[here]), end="")
        return print("}")
    for crossing in crossings():
        print(f"crossed: {crossing.module} imports {crossing.imports}, which is above it")
    for path, lines in long_files():
        print(f"long: {path} has {lines} lines; is it one concept?")
    for path, count in entangled():
        print(f"entangled: {path} imports {count} modules of the product")
    for path, name, count in overloaded():
        print(f"overloaded: {path}: {name} takes {count} arguments")


if __name__ == "__main__":
    main()
