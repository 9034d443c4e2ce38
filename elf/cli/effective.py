"""The configuration an agent really runs with: the file, changed by options, and shown as TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from elf.agents.errors import ConfigError
from elf.agents.settings.config import AgentConfig, SourceConfig
from elf.agents.toml.literals import key, quoted


def with_sources(config: AgentConfig, sources: Sequence[str], format: str, time: str) -> AgentConfig:
    """Add sources given as NAME=PATH (or NAME alone, for one that is only pushed to)."""
    added: dict[str, SourceConfig] = {}
    for text in sources:
        name, equals, path = text.partition("=")
        if equals and not path:
            raise ConfigError(
                f"--source {text} names no file; for a source that is only pushed to write --source {name}"
            )
        if name in added:
            raise ConfigError(f"--source {text}: {name!r} is given twice; one glob may name several files")
        added[name] = SourceConfig(path=path, format=format, time=time)
    return replace(config, sources={**config.sources, **added})


def with_settings(config: AgentConfig, section: str, **settings: Any) -> AgentConfig:
    """Replace the settings of one section that are not None or empty."""
    given = {name: value for name, value in settings.items() if value not in (None, [], "")}
    return replace(config, **{section: replace(getattr(config, section), **given)})


def render_toml(config: AgentConfig) -> str:
    """Write a configuration as TOML that reads back equal."""
    return "\n".join(_table((), msgspec.to_builtins(config))) + "\n"


def render_changes(config: AgentConfig) -> str:
    """Write what of a configuration is not as it is by default, and every source, as TOML that reads back equal."""
    return "\n".join(_table((), _changes(config))).lstrip("\n") + "\n"


def _changes(section: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, usual in msgspec.structs.asdict(type(section)()).items():
        value = getattr(section, name)
        if isinstance(value, msgspec.Struct):
            value = _changes(value)
            if value:
                found[name] = value
        elif value != usual:
            is_sections = isinstance(value, dict) and all(isinstance(each, msgspec.Struct) for each in value.values())
            found[name] = {key: _changes(each) for key, each in value.items()} if is_sections else value
    return found


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (plain or not table):
        yield ("" if len(path) == 1 and path[0] == "agent" else "\n") + f"[{'.'.join(map(key, path))}]"
    for name, value in plain.items():
        # A JSON number, boolean or list of strings is TOML too.
        yield f"{key(name)} = {quoted(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
    for name, value in table.items():
        if isinstance(value, dict) and (value or name not in ("columns",)):
            yield from _table((*path, name), value)
