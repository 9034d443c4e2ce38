"""Known contacts on disk, so that a restarted agent finds its cluster even when every seed is gone.

Owns the JSON file (the library pickles, which runs whatever the file says). The file is a cache: a damaged one is set
aside, worth a warning and a start from the seeds, not an error.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from elf.overlay.ids import Contact, parse_address

log = logging.getLogger(__name__)

CONTACTS_MAX = 4096
FILE_BYTES_MAX = 1 << 20


class _State(msgspec.Struct, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=1)]
    contacts: Annotated[list[Annotated[str, msgspec.Meta(max_length=300)]], msgspec.Meta(max_length=CONTACTS_MAX)]


def encode(contacts: Iterable[Contact]) -> bytes:
    """Return the file's content; addresses only, since ids follow from them."""
    addresses = [contact.address for contact in contacts][:CONTACTS_MAX]
    return msgspec.json.format(msgspec.json.encode(_State(1, addresses)), indent=1) + b"\n"


def decode(data: bytes) -> list[Contact]:
    """Return the contacts in a file's content.

    Raises:
        ValueError: the content is not what `encode` writes.
    """
    state = msgspec.json.decode(data, type=_State)
    return [Contact.at(*parse_address(address)) for address in state.contacts]


def save(path: Path, contacts: Iterable[Contact]) -> None:
    """Replace the file in one step; what was there stays when the disk is full."""
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(encode(contacts))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load(path: Path) -> tuple[list[Contact], bool]:
    """Return the contacts in the file, none without one, and whether it was damaged and is set aside now."""
    try:
        with path.open("rb") as file:
            return decode(file.read(FILE_BYTES_MAX)), False
    except FileNotFoundError:
        return [], False
    except OSError as error:
        log.warning("%s: known contacts ignored, starting from the seeds: %s", path, error)
        return [], False
    except (ValueError, RecursionError) as error:
        aside = path.with_name(path.name + ".damaged")
        log.warning("%s: known contacts ignored, the file is kept as %s: %s", path, aside.name, error)
        with contextlib.suppress(OSError):
            path.replace(aside)
        return [], True
