"""Signing a job file: its text, with the signatures of its functions at the end. Reads what lies beside the file."""

from __future__ import annotations

from pathlib import Path

from elf.agents.errors import JobError
from elf.agents.extensions.signed.signatures import KEY_BYTES, sign
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.own_functions_table import Read, signed_table
from elf.agents.language.own_functions import SOURCES_BYTES_MAX
from elf.agents.toml.text import parse_toml


def beside(file: Path) -> Read:
    """Return what reads files that a job file names: from its folder."""

    def read(name: str) -> str:
        path = file.parent / name
        try:
            if path.stat().st_size > SOURCES_BYTES_MAX:
                raise JobError(f"{path}: larger than {SOURCES_BYTES_MAX} bytes")
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise JobError(f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise JobError(f"{path}: not UTF-8 text") from None

    return read


def read_secret(file: Path) -> bytes:
    """Read a secret key as `elf keygen --signing` has written it.

    Raises:
        JobError: there is none.
    """
    try:
        secret = bytes.fromhex(file.read_text(encoding="ascii").strip())
    except OSError as error:
        raise JobError(f"{file}: {error.strerror or error}") from None
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise JobError(f"{file} holds no key to sign with; `elf keygen --signing --out FILE` makes one")
    return secret


def signed_text(
    text: str,
    secret: bytes,
    *,
    filename: str = "job.toml",
    name: str | None = None,
    creator: str | None = None,
    read: Read | None = None,
) -> str:
    """Return a job file's text with its functions signed; arguments as of `load_definition`.

    Raises:
        JobSpecError: the file is not right.
        JobError: there is nothing to sign, or it is signed already.
    """
    if filename.endswith(".sql"):
        raise JobError("a job of bare SQL has no functions of its own to sign")
    definition = load_definition(text, filename=filename, name=name, creator=creator, read=read)
    if not definition.functions:
        raise JobError(f"job {definition.key} has no functions of its own to sign; add [functions.NAME]")
    if "signed" in parse_toml(text):
        raise JobError(f"job {definition.key} is signed already; take [signed] and what follows out first")
    signed = sign(definition.creator, definition.name, definition.functions, secret)
    return text + signed_table(signed)
