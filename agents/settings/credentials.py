"""Secrets that the service manager hands over: `${credential:NAME}` in place of the path of a file with a secret.

systemd puts them into a folder of the process's own (`LoadCredential=`, `LoadCredentialEncrypted=`), which it names in
the environment. The settings that take a reference are those that name such a file, and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from elf.agents.errors import ConfigError
from elf.agents.settings.config import AgentConfig

FOLDER_VARIABLE = "CREDENTIALS_DIRECTORY"
#: Settings that name a file with a secret, in their sections; and the one of each source.
SECRET_FIELDS = (("overlay", "secret_file"), ("overlay", "tls_key_file"), ("api", "token_file"))
SOURCE_SECRET = ("privacy", "key_file")
_MARK = "${"
_REFERENCE = re.compile(r"\$\{credential:([A-Za-z0-9_-][A-Za-z0-9_.-]{0,254})\}")


def misplaced(config: AgentConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place of each reference that cannot be meant, and what is wrong with it."""
    for path, text in _texts(msgspec.to_builtins(config), ()):
        if not text.startswith(_MARK):
            continue
        if not _takes_reference(path):
            if _REFERENCE.fullmatch(text):
                yield (
                    path,
                    f"{'.'.join(path)} = {text!r}: only what names a file with a secret takes a credential",
                )
        elif not _REFERENCE.fullmatch(text):
            yield path, f"{'.'.join(path)} = {text!r}: write ${{credential:NAME}}, or the path of a file"


def with_credentials(config: AgentConfig, environment: Mapping[str, str]) -> AgentConfig:
    """Return settings with paths in the place of references.

    Raises:
        ConfigError: there are references, and no credentials.
    """
    for section, field in SECRET_FIELDS:
        before = getattr(config, section)
        text = _resolved(f"{section}.{field}", getattr(before, field), environment)
        if text != getattr(before, field):
            config = replace(config, **{section: replace(before, **{field: text})})
    sources = dict(config.sources)
    for name, source in sources.items():
        key_file = _resolved(f"sources.{name}.privacy.key_file", source.privacy.key_file, environment)
        if key_file != source.privacy.key_file:
            sources[name] = replace(source, privacy=replace(source.privacy, key_file=key_file))
    return replace(config, sources=sources) if sources != config.sources else config


def _resolved(setting: str, text: str, environment: Mapping[str, str]) -> str:
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    folder = environment.get(FOLDER_VARIABLE, "")
    if not folder:
        raise ConfigError(
            f"{setting} = {text!r}: this process has no credentials; run it by systemd, with "
            f"LoadCredential={found[1]}:FILE in its unit, or write the path of a file"
        )
    return f"{folder}/{found[1]}"


def _takes_reference(path: tuple[str, ...]) -> bool:
    return path in SECRET_FIELDS or (path[0] == "sources" and path[2:] == SOURCE_SECRET)


def _texts(data: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield all texts in some data, with their places."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _texts(value, (*path, str(index)))
