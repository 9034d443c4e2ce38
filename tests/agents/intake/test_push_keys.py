"""A push that is sent again under its key counts once, through crashes at any moment, for as long as is promised."""

import os
import pathlib
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import KeyReusedError, UnavailableError
from elf.agents.intake import push, push_keys
from elf.agents.intake.push import Appended, PushLog
from elf.agents.intake.push_keys import PushKey


def test_a_push_that_is_sent_again_is_there_once(tmp_path: pathlib.Path) -> None:
    log = PushLog(tmp_path / "s.log")
    assert log.append(b"1\n2", PushKey("a")) == Appended(2, duplicate=False)
    assert log.append(b"3\n", PushKey("b")) == Appended(1, duplicate=False)
    assert log.append(b"1\n2\n", PushKey("a")) == Appended(2, duplicate=True), "with or without its last newline"
    log.close()
    again = PushLog(tmp_path / "s.log")
    assert again.append(b"1\n2\n", PushKey("a")) == Appended(2, duplicate=True)
    assert again.append(b"1\n2\n") == Appended(2, duplicate=False), "nobody knows what comes without a key"
    again.close()
    assert again.path.read_bytes() == b"1\n2\n3\n1\n2\n"


def test_a_key_with_other_lines_is_a_mistake(tmp_path: pathlib.Path) -> None:
    log = PushLog(tmp_path / "s.log")
    log.append(b"1\n", PushKey("a"))
    with pytest.raises(KeyReusedError, match=r"^Idempotency-Key 'a' was sent with other lines before"):
        log.append(b"2\n", PushKey("a"))
    log.close()
    assert log.path.read_bytes() == b"1\n"


def test_pushes_are_remembered_for_an_hour_and_the_newest_of_many(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_keys, "KEYS_MAX", 3)
    now_ms = 1_000_000
    log = PushLog(tmp_path / "s.log", lambda: now_ms)
    for key in "abcd":
        log.append(key.encode(), PushKey(key))
    assert log.append(b"b", PushKey("b")).duplicate
    assert not log.append(b"a", PushKey("a")).duplicate, "there were three after it"
    now_ms += push_keys.REMEMBER_MS - 1
    assert log.append(b"a", PushKey("a")).duplicate
    now_ms += 1
    assert not log.append(b"a", PushKey("a")).duplicate
    log.close()


def test_what_is_remembered_outlives_the_spool(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "TRIM_BYTES", 1)
    log = PushLog(tmp_path / "s.log")
    log.append(b"first\n", PushKey("a"))
    log.trim(6)
    assert log.path.stat().st_size == 0
    assert log.append(b"first\n", PushKey("a")).duplicate
    log.close()
    again = PushLog(tmp_path / "s.log")
    assert again.append(b"first\n", PushKey("a")).duplicate
    again.close()


def test_the_journal_of_many_pushes_is_written_anew(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_keys, "KEYS_MAX", 10)
    monkeypatch.setattr(push_keys, "_STALE_MAX", 20)
    log = PushLog(tmp_path / "s.log")
    for number in range(200):
        log.append(b"line\n", PushKey(str(number)))
    assert len((tmp_path / "s.keys").read_bytes().splitlines()) <= 32
    assert [log.append(b"line\n", PushKey(str(number))).duplicate for number in (190, 199)] == [True, True]
    log.close()


def test_a_push_that_could_not_be_made_durable_is_not_remembered(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PushLog(tmp_path / "s.log")
    log.append(b"first\n", PushKey("a"))

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(push.os, "fdatasync", fail)
        with pytest.raises(UnavailableError):
            log.append(b"second\n", PushKey("b"))
    assert log.append(b"second\n", PushKey("b")) == Appended(1, duplicate=False)
    assert log.append(b"second\n", PushKey("b")) == Appended(1, duplicate=True)
    log.close()
    assert log.path.read_bytes() == b"first\nsecond\n"


def test_retries_that_come_together_count_once(tmp_path: pathlib.Path) -> None:
    log, told = PushLog(tmp_path / "s.log"), list[Appended]()
    threads = [threading.Thread(target=lambda: told.append(log.append(b"x\n", PushKey("a")))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert sorted(told) == [Appended(1, duplicate=False)] + [Appended(1, duplicate=True)] * 15
    assert log.path.read_bytes() == b"x\n"


@settings(max_examples=60)
@given(
    pushes=st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=12),
    lost_journal=st.integers(0, 200),
    lost_spool=st.integers(0, 40),
)
def test_whatever_a_power_failure_takes_each_push_counts_once(
    tmp_path_factory: pytest.TempPathFactory,
    pushes: list[tuple[str, bool]],
    lost_journal: int,
    lost_spool: int,
) -> None:
    """Of the last push, which was not acknowledged, any part of lines and journal may be there; its retry decides."""
    folder = tmp_path_factory.mktemp("power")
    log = PushLog(folder / "s.log")
    acknowledged = set[str]()
    for key, restarts in pushes[:-1]:
        assert log.append(key.encode() * 9, PushKey(key)).duplicate == (key in acknowledged)
        acknowledged.add(key)
        if restarts:
            log.close()
            log = PushLog(folder / "s.log")
    spool, journal = log.path, folder / "s.keys"
    sizes = spool.stat().st_size, journal.stat().st_size
    last = pushes[-1][0]
    log.append(last.encode() * 9, PushKey(last))
    log.close()
    os.truncate(spool, max(sizes[0], spool.stat().st_size - lost_spool))
    # The journal is synced first: it may lack what the lines lack as well, never less.
    if spool.stat().st_size == sizes[0]:
        os.truncate(journal, max(sizes[1], journal.stat().st_size - lost_journal))
    again = PushLog(folder / "s.log")
    for key in {*acknowledged, last}:
        again.append(key.encode() * 9, PushKey(key))
    again.close()
    assert sorted(spool.read_text().split()) == sorted(key * 9 for key in {*acknowledged, last})


def test_a_damaged_journal_costs_the_keys_and_no_lines(tmp_path: pathlib.Path) -> None:
    log = PushLog(tmp_path / "s.log")
    log.append(b"1\n", PushKey("a"))
    log.append(b"2\n", PushKey("b"))
    log.close()
    journal = tmp_path / "s.keys"
    journal.write_bytes(journal.read_bytes().replace(b"key", b"\xff\xfe\n", 1))
    again = PushLog(tmp_path / "s.log")
    assert not again.append(b"1\n", PushKey("a")).duplicate
    assert again.append(b"2\n", PushKey("b")).duplicate
    again.close()


def test_a_client_that_numbers_its_pushes_is_known_by_the_last_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_keys, "KEYS_MAX", 2)
    log = PushLog(tmp_path / "s.log")
    for serial in range(100):
        for name in ("one", "other"):
            assert not log.append(f"{name}{serial}\n".encode(), PushKey(name, serial)).duplicate
    for again in (log, PushLog(tmp_path / "s.log")):
        assert again.append(b"one99\n", PushKey("one", 99)) == Appended(1, duplicate=True)
        assert again.append(b"one7\n", PushKey("one", 7)) == Appended(1, duplicate=True), "it has passed that"
        with pytest.raises(KeyReusedError, match=r"'one' with Push-Serial 99 was sent with other lines"):
            again.append(b"else\n", PushKey("one", 99))
    assert not log.append(b"x\n", PushKey("one")).duplicate, "a key of one push is none of a client"
    assert log.path.read_bytes().count(b"one") == 100


def test_a_numbered_push_that_could_not_be_made_durable_leaves_the_one_before(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PushLog(tmp_path / "s.log")
    log.append(b"1\n", PushKey("a", 1))
    with monkeypatch.context() as failing:

        def fail(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        failing.setattr(os, "fdatasync", fail)
        with pytest.raises(UnavailableError):
            log.append(b"2\n", PushKey("a", 2))
    assert log.append(b"1\n", PushKey("a", 1)).duplicate
    assert not log.append(b"2\n", PushKey("a", 2)).duplicate
    log.close()
    assert log.path.read_bytes() == b"1\n2\n"


@settings(max_examples=60, deadline=None)
@given(
    serials=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    lost_journal=st.integers(0, 200),
    lost_spool=st.integers(0, 40),
)
def test_whatever_a_power_failure_takes_numbered_pushes_count_once(
    tmp_path_factory: pytest.TempPathFactory, serials: list[int], lost_journal: int, lost_spool: int
) -> None:
    """A client goes on with the number that was not acknowledged, whatever of it is there."""
    folder = tmp_path_factory.mktemp("power")
    log, sent = PushLog(folder / "s.log"), 0
    for steps in serials:
        for _ in range(steps):
            log.append(b"%d\n" % sent, PushKey("a", sent))
            sent += 1
    spool, journal = log.path, folder / "s.keys"
    sizes = spool.stat().st_size, journal.stat().st_size
    log.append(b"%d\n" % sent, PushKey("a", sent))
    log.close()
    os.truncate(spool, max(sizes[0], spool.stat().st_size - lost_spool))
    if spool.stat().st_size == sizes[0]:
        os.truncate(journal, max(sizes[1], journal.stat().st_size - lost_journal))
    again = PushLog(folder / "s.log")
    for serial in range(max(0, sent - 2), sent + 2):
        again.append(b"%d\n" % serial, PushKey("a", serial))
    again.close()
    assert spool.read_text().split() == [str(serial) for serial in range(sent + 2)]
