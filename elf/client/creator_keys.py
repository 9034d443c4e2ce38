"""A creator's key at work: the orders that go with what is asked of a job (`elf.agents.jobs.orders`).

The key is a file of the user's own, made by `elf keygen --creator`. Without one nothing is ordered, and jobs belong to
whoever may use an agent's API.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from elf.agents.errors import JobError

if TYPE_CHECKING:
    from elf.agents.jobs.definition import Definition
    from elf.agents.jobs.orders import What

KEY_VARIABLE = "ELF_CREATOR_KEY_FILE"


def creator_key_file() -> Path:
    """Return where a user's key is, if there is one: $ELF_CREATOR_KEY_FILE, or in the user's folder of settings."""
    given = os.environ.get(KEY_VARIABLE, "")
    return Path(given) if given else Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "elf" / "creator.key"


def now_ms() -> int:
    """Return the time of day."""
    return time.time_ns() // 1_000_000


class CreatorKey:
    """Makes orders with one secret key.

    Args:
        secret: the key.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def publish(self, text: str, filename: str, name: str | None, creator: str) -> dict[str, str]:
        """Return the header that publishes a job's text; arguments and errors as of `load_definition`."""
        from elf.agents.jobs.definition import load_definition

        definition = load_definition(text, filename=filename, name=name, creator=creator)
        return self._header("publish", definition.key, os.urandom(8).hex(), _about(definition), 0, 0)

    def change(self, what: What, described: Mapping[str, Any], keep_ms: int = 0, **other: Any) -> dict[str, str]:
        """Return the header that does something with a job; none if the job is nobody's.

        Args:
            what: is done.
            described: the job as an agent describes it.
            keep_ms: of a stop: how long it can be undone.
            other: of what is another definition than the newest: the `definition`; or the `version` to go back to; or
                `query` and `options`.
        """
        if not described.get("owner"):
            return {}
        about = "" if what in ("end", "leap", "retire", "load") else _about(_changed(described, **other))
        key, last_ms = f"{described['creator']}/{described['name']}", int(described["ordered_ms"])
        return self._header(what, key, described["publication"], about, keep_ms, last_ms)

    def stop(self, described: Mapping[str, Any], keep: str | None) -> dict[str, str]:
        """Return the header that stops a job for as long as is wanted, or for good; see `AsyncClient.stop`."""
        from elf.agents.language.durations import parse_duration_ms
        from elf.agents.wire.changes import KEEP_MS

        # Parts that are left of a job have no options told, and end for good.
        availability = described.get("options", {}).get("availability", "")
        keep_ms = KEEP_MS if availability == "exact" else 0
        if keep is not None and availability:
            # What is no length of time the agent refuses with its own words.
            with contextlib.suppress(ValueError):
                keep_ms = 0 if re.fullmatch(r"0+ ?[a-z]*", keep) else parse_duration_ms(keep)
        return self.change("stop" if keep_ms else "end", described, keep_ms)

    def purge(self, what: str) -> dict[str, str]:
        """Return the header that purges something; the key has to be an operator's."""
        return self._header("purge", what, "", "", 0, 0)

    def _header(self, what: What, job: str, publication: str, about: str, keep_ms: int, last_ms: int) -> dict[str, str]:
        from elf.agents.jobs.orders import ORDER_HEADER, Order

        # Later than the last one, whatever this machine's clock says.
        made_ms = max(now_ms(), last_ms + 1)
        order = Order(
            key="", what=what, job=job, publication=publication, about=about, keep_ms=keep_ms, made_ms=made_ms
        )
        return {ORDER_HEADER: msgspec.json.encode(order.signed(self._secret)).decode()}


def read_creator_key(file: Path | None = None) -> CreatorKey | None:
    """Return a user's key; None if there is none where it would be.

    Raises:
        JobError: a file that was named is not there, holds no key, or others can read it.
    """
    is_named = file is not None or KEY_VARIABLE in os.environ
    path = file or creator_key_file()
    try:
        path = path.expanduser()
        is_there = is_named or path.exists()
    except (OSError, RuntimeError):
        # There is no home, or it is another user's, as where a service's user has a command run.
        is_there = is_named
    if not is_there:
        return None
    from elf.agents.extensions.signed.job_file import read_secret

    secret = read_secret(path)
    if path.stat().st_mode & 0o077:
        raise JobError(f"{path}: others can read your creator's key; run `chmod 600 {path}`, or make another one")
    return CreatorKey(secret)


def _about(definition: Definition) -> str:
    from elf.agents.jobs.orders import digest_of

    return digest_of(definition)


def _changed(
    described: Mapping[str, Any],
    *,
    definition: tuple[str, str] | None = None,
    version: int | None = None,
    back: bool = False,
    query: str | None = None,
    options: Mapping[str, str | int] | None = None,
) -> Definition:
    """Return a job's definition as it will be."""
    from msgspec.structs import replace

    from elf.agents.jobs.definition import changed_options, load_definition
    from elf.agents.master.listing import definition_of

    current = definition_of(described)
    if definition is not None:
        text, filename = definition
        return load_definition(text, filename=filename, name=current.name, creator=current.creator)
    if back:
        row = _row(described["versions"], version)
        return definition_of({**described, **{field: row[field] for field in ("query", "options", "functions")}})
    wanted = current.query if query is None else query
    return replace(current, query=wanted, options=changed_options(current.options, options or {}))


def _row(versions: list[dict[str, Any]], number: int | None) -> dict[str, Any]:
    """Return the version to go back to; what the agent refuses to go back to is the newest one here."""
    earlier = [row for row in versions[:-1] if number in (None, row["version"])]
    return (earlier or versions)[-1]
