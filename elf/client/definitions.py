"""What a person gives as a job: a file, or its text."""

from __future__ import annotations

from pathlib import Path

from elf.agents.errors import JobError
from elf.job_text import read_job


def definition_of(file: str | Path | None, text: str | None, name: str | None) -> tuple[str, str]:
    """Return a job's text and the file name that tells its kind."""
    if (file is None) == (text is None):
        raise JobError("publish takes either a file or text=...")
    if text is not None:
        is_sql = text.lstrip().lower().startswith(("select", "with"))
        if is_sql and name is None:
            raise JobError("a job given as bare SQL has no name yet; add name=...")
        return text, f"{name or 'job'}.{'sql' if is_sql else 'toml'}"
    path = Path(file or "")
    return read_job(path), path.name


def signed_job(
    file: str | Path | None, text: str, filename: str, key: str | Path, name: str | None, creator: str | None
) -> str:
    """Return a job's text with its functions signed; arguments as of `load_definition`, `key` is a secret key's file.

    Raises:
        JobSpecError: the job is not right.
        JobError: there is nothing to sign, it is signed already, or a file cannot be read.
    """
    # Parsing SQL takes a while to load, and few jobs bring functions along.
    from elf.agents.extensions.signed.job_file import beside, read_secret, signed_text

    read = None if file is None else beside(Path(file))
    return signed_text(text, read_secret(Path(key)), filename=filename, name=name, creator=creator, read=read)
