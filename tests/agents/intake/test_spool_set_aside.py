"""A spool that somebody else shortened or replaced is kept aside: nothing of it counts twice, what is lost is a gap."""

import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from elf.agents.errors import UnavailableError
from elf.agents.intake.push import PushLog
from elf.agents.intake.push_keys import PushKey
from elf.agents.intake.source_setup import look_after
from elf.agents.sources.files.rotation import decode
from elf.agents.sources.files.tail import Tail
from tests.agents.sources.files.tailing import drain


class Spooled:
    """A spool and its tail, whose lines are counted as a pump counts them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder / "push" / "s.log"
        self.lines: list[bytes] = []
        self._positions: bytes | None = None
        self.start()

    def start(self) -> None:
        self.push = PushLog(self.path)
        look_after(self.push, () if self._positions is None else decode(self._positions))
        self.tail = Tail(str(self.path), spools={str(self.path): self.push}, rotate_wait_ms=0)
        if self._positions is not None:
            self.tail.restore(self._positions)

    def stop(self) -> None:
        self._positions = self.tail.positions()
        self.tail.close()
        self.push.close()

    def read(self) -> None:
        for _ in range(3):
            self.lines += drain(self.tail).splitlines()

    @property
    def gaps(self) -> int:
        return self.tail.gap_count


def numbered(first: int, last: int) -> list[bytes]:
    return [b"line %06d" % number for number in range(first, last)]


def text(first: int, last: int) -> bytes:
    return b"".join(line + b"\n" for line in numbered(first, last))


def cut(spooled: Spooled) -> None:
    os.truncate(spooled.path, 300)


def cut_in_a_line(spooled: Spooled) -> None:
    os.truncate(spooled.path, 295)


def empty(spooled: Spooled) -> None:
    os.truncate(spooled.path, 0)


def put_back(spooled: Spooled) -> None:
    kept = spooled.path.read_bytes()[:300]
    spooled.path.with_suffix(".other").write_bytes(kept)
    spooled.path.with_suffix(".other").replace(spooled.path)


def put_other(spooled: Spooled) -> None:
    spooled.path.with_suffix(".other").write_bytes(b"another\n" * 100)
    spooled.path.with_suffix(".other").replace(spooled.path)


def remove(spooled: Spooled) -> None:
    spooled.path.unlink()


HARM = (cut, cut_in_a_line, empty, put_back, put_other, remove)


@pytest.mark.parametrize("looks_first", [True, False], ids=["tail", "push"])
@pytest.mark.parametrize("harm", HARM)
def test_harm_while_it_is_written(tmp_path: pathlib.Path, harm: Callable[[Spooled], None], looks_first: bool) -> None:
    spooled = Spooled(tmp_path)
    spooled.push.append(text(0, 100))
    spooled.read()
    harm(spooled)
    if looks_first:
        spooled.read()
    spooled.push.append(text(100, 120))
    spooled.read()
    assert spooled.lines == numbered(0, 120)
    spooled.push.append(text(120, 130))
    spooled.read()
    assert spooled.lines == numbered(0, 130)
    spooled.stop()


@pytest.mark.parametrize("harm", HARM)
def test_harm_before_all_was_read_is_a_gap(tmp_path: pathlib.Path, harm: Callable[[Spooled], None]) -> None:
    spooled = Spooled(tmp_path)
    spooled.push.append(text(0, 50))
    spooled.read()
    spooled.push.append(text(50, 100))
    harm(spooled)
    spooled.push.append(text(100, 120))
    spooled.read()
    assert spooled.lines == numbered(0, 50) + numbered(100, 120)
    assert spooled.gaps == 1
    spooled.stop()


@pytest.mark.parametrize("harm", HARM)
def test_harm_while_the_agent_is_down(tmp_path: pathlib.Path, harm: Callable[[Spooled], None]) -> None:
    spooled = Spooled(tmp_path)
    spooled.push.append(text(0, 100))
    spooled.read()
    spooled.stop()
    harm(spooled)
    spooled.start()
    spooled.push.append(text(100, 120))
    spooled.read()
    assert spooled.lines == numbered(0, 100) + numbered(100, 120)
    assert spooled.gaps == 1, "nobody knows how much more there was"
    spooled.stop()


def test_what_is_left_of_it_is_kept(tmp_path: pathlib.Path) -> None:
    spooled = Spooled(tmp_path)
    spooled.push.append(text(0, 100), PushKey("a"))
    spooled.read()
    os.truncate(spooled.path, 300)
    assert spooled.push.append(text(0, 100), PushKey("a")).duplicate, "it was read"
    spooled.push.append(text(100, 120))
    assert spooled.path.with_name("s.log.damaged-1").stat().st_size == 300
    spooled.stop()


def test_a_new_spool_of_ours_is_none_that_was_replaced(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.agents.intake.push.TRIM_BYTES", 1)
    spooled = Spooled(tmp_path)
    spooled.push.append(text(0, 10))
    spooled.read()
    spooled.push.trim(spooled.path.stat().st_size)
    spooled.push.append(text(10, 20))
    spooled.stop()
    spooled.start()
    assert not spooled.push.is_replaced
    spooled.read()
    assert (spooled.lines, spooled.gaps) == (numbered(0, 20), 0)
    spooled.stop()


def test_a_copy_of_a_spool_that_holds_what_was_read_is_read_on(tmp_path: pathlib.Path) -> None:
    """A data folder that was moved to another disk, say."""
    spooled = Spooled(tmp_path)
    spooled.push.append(text(0, 10))
    spooled.read()
    spooled.push.append(text(10, 20), PushKey("a"))
    spooled.stop()
    copy = spooled.path.with_suffix(".copy")
    copy.write_bytes(spooled.path.read_bytes())
    copy.replace(spooled.path)
    spooled.start()
    assert spooled.push.append(text(10, 20), PushKey("a")).duplicate
    spooled.push.append(text(20, 30))
    spooled.read()
    assert (spooled.lines, spooled.gaps) == (numbered(0, 30), 0)
    spooled.stop()


def test_an_empty_spool_is_no_gap_at_a_start(tmp_path: pathlib.Path) -> None:
    spooled = Spooled(tmp_path)
    spooled.read()
    spooled.stop()
    spooled.start()
    spooled.push.append(text(0, 10))
    spooled.read()
    assert (spooled.lines, spooled.gaps) == (numbered(0, 10), 0)
    spooled.stop()


def test_a_spool_on_a_disk_that_is_lost_is_a_gap(tmp_path: pathlib.Path) -> None:
    """A neighbour had the place; nobody knows what came behind it."""
    spooled = Spooled(tmp_path / "before")
    spooled.push.append(text(0, 10))
    spooled.read()
    spooled.stop()
    shutil.rmtree(tmp_path / "before")
    spooled.start()
    spooled.push.append(text(10, 20))
    spooled.read()
    assert (spooled.lines, spooled.gaps) == (numbered(0, 20), 1)
    spooled.stop()


def test_of_many_spools_that_were_read_none_is_a_gap(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.agents.intake.push.TRIM_BYTES", 1)
    spooled = Spooled(tmp_path)
    for number in range(5):
        spooled.push.append(text(number, number + 1))
        spooled.lines += drain(spooled.tail).splitlines()
        spooled.push.trim(spooled.path.stat().st_size)
    spooled.push.append(text(5, 6))
    spooled.stop()
    spooled.start()
    spooled.read()
    assert (spooled.lines, spooled.gaps) == (numbered(0, 6), 0)
    spooled.stop()


def test_a_push_that_cannot_be_remembered_leaves_nothing_in_the_new_spool(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spooled = Spooled(tmp_path)
    spooled.push.append(text(0, 100))
    spooled.read()
    os.truncate(spooled.path, 300)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(spooled.push._keys, "add", fail)
        with pytest.raises(UnavailableError, match="No space"):
            spooled.push.append(text(100, 120), PushKey("a"))
    assert spooled.path.stat().st_size == 0
    assert not spooled.push.append(text(100, 120), PushKey("a")).duplicate
    spooled.read()
    assert spooled.lines == numbered(0, 120)
    spooled.stop()
