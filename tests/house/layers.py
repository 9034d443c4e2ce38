"""The layers of an agent: its folders in order, each of which may import those below it (ARCHITECTURE.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.house.modules import names, own_imports

#: From the bottom up. Names without a dot are folders of `agents/`; with `.py`, modules that lie in it directly.
LAYERS = (
    "errors.py",
    "failures.py",
    "completeness",
    "toml",
    "language",
    "jobs",
    "wire",
    "extensions",
    "settings",
    "host",
    "sources",
    "worker",
    "store",
    "archive",
    "master",
    "intake",
    "replication",
    "audits",
    "group",
    "results",
    "publications",
    "applications",
    "identity.py",
    "membership.py",
    "master_side.py",
    "worker_side.py",
    "purge.py",
    "changed_sources.py",
    "departure.py",
    "reconfiguration.py",
    "dispatch",
    "agent.py",
    "http",
    "oneshot.py",
    "runtime.py",
)


class Crossing(NamedTuple):
    """An import that runs up."""

    module: str
    imports: str


def layer(module: str) -> str | None:
    """Return the layer that a module of `elf.agents` is of; None for others."""
    parts = module.split(".")
    if parts[:2] != ["elf", "agents"] or len(parts) < 3:
        return None
    return f"{parts[2]}.py" if names()[".".join(parts[:3])].name != "__init__.py" else parts[2]


def crossings() -> Iterator[Crossing]:
    """Find the imports between layers that run up, from which every circle of folders has at least one."""
    for module, path in sorted(names().items()):
        here = layer(module)
        if here is None:
            continue
        for other in own_imports(path):
            there = layer(other)
            if there is not None and LAYERS.index(there) > LAYERS.index(here):
                yield Crossing(module, other)


def uses() -> dict[str, list[str]]:
    """Return which other layers each layer imports, the highest first."""
    found: dict[str, set[str]] = {each: set() for each in LAYERS}
    for module, path in names().items():
        here = layer(module)
        if here is not None:
            found[here] |= {there for other in own_imports(path) if (there := layer(other)) not in (None, here)}
    return {here: sorted(there, key=LAYERS.index, reverse=True) for here, there in found.items()}
