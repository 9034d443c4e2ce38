"""The unit that an agent runs under: as systemd itself reads and measures it, where there is one to ask."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

from elf.installation.unit import TEMPLATE as UNIT

#: What systemd's own measure of what a service could do to the machine comes to; 10 is all.
EXPOSURE_MAX = 2.0


def asked(*arguments: str) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.fail("systemd-analyze is missing; install systemd (it need not run)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def test_systemd_takes_it(tmp_path: pathlib.Path) -> None:
    unit = tmp_path / UNIT.name
    # Neither is installed here.
    unit.write_text(
        re.sub(r"^Documentation=.*\n", "", UNIT.read_text(), flags=re.M).replace("/opt/elf/bin/elf", "/bin/true")
    )
    assert asked("verify", str(unit)) == ""


def test_it_is_shut_in() -> None:
    found = re.search(
        r"exposure level for elf-agent\.service: ([\d.]+)", asked("security", "--offline=true", str(UNIT))
    )
    assert found is not None and float(found[1]) <= EXPOSURE_MAX


def test_what_signed_functions_need_is_left_open() -> None:
    text = UNIT.read_text()
    assert "~@resources" not in text and not re.search(r"^ProcSubset=", text, re.M)
