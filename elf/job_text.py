"""The text of a job's file."""

from __future__ import annotations

from pathlib import Path

from elf.agents.errors import JobError


def read_job(file: Path) -> str:
    """Read a job file's text; raises JobError where there is none."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise JobError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise JobError(f"{file}: not UTF-8 text") from None
