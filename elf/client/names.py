"""How people name jobs: `name` alone, or `creator/name`; and who the creator is when nobody says."""

from __future__ import annotations

import getpass
import os
import re

from elf.agents.errors import JobError

CREATOR_VARIABLE = "ELF_CREATOR"
_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_FORM = "up to 63 of a-z 0-9 . _ - beginning with a letter or digit"


def split_name(text: str) -> tuple[str | None, str]:
    """Split `creator/name` or `name`.

    Raises:
        JobError: a part is not a possible name.
    """
    creator, slash, name = text.rpartition("/")
    for part in (creator, name) if slash else (name,):
        if not _PATTERN.fullmatch(part):
            raise JobError(f"{text!r} cannot be a job; write NAME or CREATOR/NAME, each {_FORM}")
    return (creator if slash else None), name


def default_creator() -> str:
    """Return $ELF_CREATOR, else the operating system's user, made to fit the pattern.

    Raises:
        JobError: $ELF_CREATOR is set to something that is not a possible name.
    """
    given = os.environ.get(CREATOR_VARIABLE, "")
    if given:
        if not _PATTERN.fullmatch(given):
            raise JobError(f"{CREATOR_VARIABLE}={given!r} is not a possible creator; use {_FORM}")
        return given
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    return re.sub(r"[^a-z0-9._-]", "-", user.lower()).lstrip("._-")[:63] or "nobody"
