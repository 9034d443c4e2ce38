"""What is in a backup, and whose it is: its first part, and the names of the others."""

from __future__ import annotations

from typing import Annotated

import msgspec

#: Of the parts in the archive.
FOLDER = "elf-backup"
MANIFEST, STATE, SETTINGS, JOBS, SECRETS = "manifest.json", "state.db", "agent.toml", "jobs", "secrets"
FORMAT = 1
#: More than any manifest, settings, job or secret has.
PART_BYTES_MAX = 4 << 20


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Whose backup this is, and when it was made.

    Attributes:
        format: what the parts mean; a later one is refused.
        release: elf's, that made it.
        agent: the id of the agent.
        name: as people know it.
        made_ms: the time of day when the copy was made, ms.
        jobs: of which the agent keeps results, as `creator/name`.
    """

    format: Annotated[int, msgspec.Meta(ge=1)]
    release: str
    agent: str
    name: str
    made_ms: int
    jobs: list[str] = []
