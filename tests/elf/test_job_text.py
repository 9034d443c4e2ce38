"""Reading a job's file, for the command line and for clients."""

from pathlib import Path

import pytest

from elf.agents.errors import JobError
from elf.job_text import read_job


def test_a_file_is_read_or_there_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "job.sql"
    with pytest.raises(JobError, match=f"^{file}: No such file or directory$"):
        read_job(file)
    file.write_bytes(b"SELECT '\xff'")
    with pytest.raises(JobError, match=f"^{file}: not UTF-8 text$"):
        read_job(file)
    file.write_text("SELECT 'ä'", encoding="utf-8")
    assert read_job(file) == "SELECT 'ä'"
    with pytest.raises(JobError, match=f"^{tmp_path}: Is a directory$"):
        read_job(tmp_path)
