"""What is tied to a process ends with it, however it ends, and the folder is gone after the last one."""

from __future__ import annotations

import asyncio
import pathlib
import signal
import subprocess
import sys

import pytest

from elf.demo.ties import Ties
from tests.overlay.cluster import wait_until

#: Begins one that ends in order and says so in a file, ties it, and waits.
BEGINNER = """
import pathlib, subprocess, sys, time
from elf.demo.ties import Ties
folder = pathlib.Path(sys.argv[1])
Ties(folder).begin("tests.elf.demo.waiting", str(folder), messages=subprocess.DEVNULL)
time.sleep(600)
"""


def processes_of(folder: pathlib.Path) -> list[str]:
    """The processes, but for zombies, whose command lines name a folder."""
    found = []
    for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(words.decode().replace("\0", " "))
    return found


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "shop"
    made.mkdir()
    return made


def test_all_end_in_order_when_they_are_cut(folder: pathlib.Path) -> None:
    ties = Ties(folder)
    process = ties.begin("tests.elf.demo.waiting", str(folder), messages=subprocess.DEVNULL)
    asyncio.run(wait_until((folder / "begun").exists))
    ties.cut()
    assert process.wait(60) == 3, "it was told to end, and did so itself"
    assert not folder.exists()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_all_end_with_whoever_began_them(folder: pathlib.Path, end: signal.Signals) -> None:
    beginner = subprocess.Popen([sys.executable, "-c", BEGINNER, str(folder)], stderr=subprocess.DEVNULL)
    asyncio.run(wait_until((folder / "begun").exists))
    assert len(processes_of(folder)) == 3
    beginner.send_signal(end)
    beginner.wait()
    asyncio.run(wait_until(lambda: not processes_of(folder)))
    assert not folder.exists()


def test_a_process_that_was_killed_holds_up_nothing(folder: pathlib.Path) -> None:
    ties = Ties(folder)
    process = ties.begin("tests.elf.demo.waiting", str(folder), messages=subprocess.DEVNULL)
    asyncio.run(wait_until((folder / "begun").exists))
    process.kill()
    process.wait()
    assert folder.exists()
    ties.cut()
    assert not folder.exists()
