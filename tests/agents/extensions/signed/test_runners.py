"""Signed functions in their process: what they compute, and what becomes of those that do what they may not."""

from __future__ import annotations

import datetime
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
import pytest

from elf.agents.errors import JobSpecError
from elf.agents.extensions.signed import allowance, process
from elf.agents.extensions.signed.runners import Runners
from elf.agents.language.installed.calls import FunctionError, FunctionsStoppedError
from elf.agents.language.own_functions import OwnFunction
from tests.agents.extensions.signed.signed_jobs import SECTION

#: What escapes from restricted names gives a function: the module behind `os`.
POSIX = """
def posix(name="posix"):
    kinds = ().__class__.__base__.__subclasses__()
    return [kind for kind in kinds if kind.__name__ == "BuiltinImporter"][0].load_module(name)

"""


class Called:
    """One function `f`, and the reasons for which its job was to be stopped."""

    def __init__(self, source: str, args: Sequence[str] = ("STRING",), returns: str = "STRING", strict: bool = False):
        self.stopped: list[tuple[str, str]] = []
        function = OwnFunction(name="f", args=tuple(args), returns=returns, strict=strict, source=source)
        self.runners = Runners(None, lambda creator, job, _, why: self.stopped.append((f"{creator}/{job}", why)))
        self._call = self.runners.admit("shop", "sections", [function])[0]

    def __call__(self, *columns: Sequence[Any] | pl.Series) -> list[Any]:
        series = [column if isinstance(column, pl.Series) else pl.Series(column) for column in columns]
        return self._call(series).to_list()

    def processes(self) -> list[int]:
        """The numbers of the processes that this one has begun and that are there."""
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return [int(pid) for pid in children if b"child.py" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture
def called(request: pytest.FixtureRequest) -> Iterator[Called]:
    made = Called(*request.param) if isinstance(request.param, tuple) else Called(request.param)
    yield made
    made.runners.close()
    assert made.processes() == []


@pytest.mark.parametrize("called", [SECTION.replace("section", "f")], indirect=True)
def test_a_function_is_called_for_each_row(called: Called) -> None:
    assert called(["/shop/toys/kite", "/", "/shop/books/1"]) == ["toys", None, "books"]
    many = [f"/shop/{'abcdefgh'[number % 8]}/x" for number in range(20_000)]
    assert called(many) == [path[6] for path in many]
    (pid,) = called.processes()
    called.runners.rest(0.0)
    assert called.processes() == []
    assert called(["/shop/toys/kite"]) == ["toys"] and called.processes() != [pid]
    assert called.stopped == []


TIMES = [datetime.datetime(2026, 1, 2, 3, 4, 5, 678_901), datetime.datetime(1969, 12, 31, 23, 59)]
DAYS = [datetime.date(2026, 1, 2), datetime.date(1, 1, 1)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BOOLEAN", [True, False]),
        ("INT", [-(2**31), 2**31 - 1]),
        ("BIGINT", [-(2**63), 2**63 - 1]),
        ("DOUBLE", [float("inf"), -0.0]),
        ("STRING", ["", '\u20ac\U0001f600 "\\\n\x00']),
        ("DATE", DAYS),
        ("TIMESTAMP", TIMES),
    ],
)
def test_values_of_every_type_come_back_as_they_went(kind: str, values: list[Any]) -> None:
    called = Called("def f(x, y): return x", (kind, "BIGINT"), kind)
    try:
        assert repr(called([*values, None], [1, 2, 3])) == repr([*values, None])
        strict = Called("def f(x, y): return x", (kind, "BIGINT"), kind, strict=True)
        assert strict([values[0], values[0]], [1, None]) == [values[0], None]
        strict.runners.close()
    finally:
        called.runners.close()


@pytest.mark.parametrize("called", ["def f(x): return str(7 // len(x))", "def f(x): return x and 7"], indirect=True)
def test_a_failure_is_of_its_events_and_the_job_goes_on(called: Called) -> None:
    with pytest.raises(FunctionError, match=r"the function f fails: (ZeroDivisionError|TypeError: it returned 7)"):
        called(["abc", "", "abcd"])
    assert called.stopped == [] and len(called.processes()) == 1


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE"])
def test_a_time_that_python_does_not_have_fails_its_event_and_no_other(kind: str) -> None:
    called = Called("def f(x): return x.year", (kind,), "INT")
    dtype, far = (pl.Datetime("us"), 1 << 60) if kind == "TIMESTAMP" else (pl.Date, 1 << 30)
    try:
        whole = (
            pl.Series([0, far, -far], dtype=pl.Int64).cast(pl.Int64 if kind == "TIMESTAMP" else pl.Int32).cast(dtype)
        )
        with pytest.raises(FunctionError, match="the function f fails: OverflowError"):
            called(whole)
        assert called(whole[:1]) == [1970]
        assert called.stopped == [] and len(called.processes()) == 1
    finally:
        called.runners.close()


HOSTILE = {
    "loops": ("def f(x):\n    while True: pass", "take too long: more than 0.3 s of a processor"),
    "loops at once": ("while True: pass", "take too long: more than 0.3 s of a processor"),
    "allocates": ("def f(x):\n    a = []\n    while True: a.append('x' * 100_000)", "need more than 256 MiB of memory"),
    "allocates at once": ("a = 'x' * (1 << 40)", "need more than 256 MiB of memory"),
    "recurses": ("def f(x): return f(x)", "fails on every event: RecursionError"),
    "raises": ("def f(x):\n    raise ValueError('no\\nwhatever')", "f fails on every event: ValueError: no"),
    "raises at once": ("1 / 0", "the source of its function f fails: ZeroDivisionError"),
    "defines nothing": ("def g(x): return x", "the source of its function f fails: TypeError: the source defines no"),
    "is no Python": ("def f(x) return x", "the source of its function f fails: SyntaxError"),
    "imports": ("import socket", "socket cannot be imported here"),
    "opens": ("def f(x): return open(x)", "fails on every event: NameError"),
    "opens all the same": (f"{POSIX}def f(x): return posix().open('/etc/passwd', 0)", "PermissionError"),
    "forks": (f"{POSIX}def f(x): return posix().fork()", "a system call that they may not make"),
    "runs a program": (f"{POSIX}def f(x): posix().execv('/bin/sh', ['sh'])", "a system call that they may not make"),
    "makes a thread": (f"{POSIX}def f(x): posix('_thread').start_new_thread(f, ())", "a system call that they may not"),
    "kills": (f"{POSIX}def f(x): posix().kill(posix().getppid(), 9)", "a system call that they may not make"),
    "sleeps": (f"{POSIX}def f(x): posix('time').sleep(99)", "a system call that they may not make"),
    "lifts its limits": (f"{POSIX}def f(x): posix().setuid(0)", "a system call that they may not make"),
    "waits": (f"{POSIX}def f(x): return posix().read(3, 9)", "wait for something, for more than 0.3 s"),
    "drips": (
        f"{POSIX}def f(x):\n"
        "    lock = posix('_thread').allocate_lock(); lock.acquire()\n"
        "    posix().write(4, (2_000_000).to_bytes(4, 'big') + b'[')\n"
        "    while True:\n"
        "        lock.acquire(timeout=0.01)\n"
        "        posix().write(4, b' ')",
        "take too long: more than 1 s for one call|wait for something",
    ),
    "ends": (f"{POSIX}def f(x): posix()._exit(0)", "the process of its functions has ended by itself"),
    "floods": (f"{POSIX}def f(x):\n    while True: posix().write(4, b'x' * 65536)", "more than 20[0-9]{5} bytes"),
    "lies": (f"{POSIX}def f(x): posix().write(4, b'\\0\\0\\0\\2[]')", "answer what was not asked"),
    "lies of types": (
        f'{POSIX}def f(x): posix().write(4, b\'\\0\\0\\0\\x1b["answers", 1, [1], 0, ""]  \')',
        "answer with what is not of their types",
    ),
    "answers at length": ("def f(x): return 'x' * (1 << 25)", "more than 20[0-9]{5} bytes|MiB of memory"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_may_not_be_stops_the_job_soon_and_nothing_else(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "loops" in what or what in ("waits", "drips"):
        # To sit out a second each is no better a test.
        monkeypatch.setattr(allowance, "BURST_S", 0.3)
        monkeypatch.setattr(process, "_IDLE_S", 0.3)
        monkeypatch.setattr(process, "_STARVED_S", 1.0 if what == "drips" else 10.0)
    source, why = HOSTILE[what]
    called, began_s = Called(source), time.monotonic()
    with pytest.raises(FunctionsStoppedError, match=f"job shop/sections is stopped: .*({why})"):
        for _ in range(40):
            try:
                called(["/etc/hosts"])
            except FunctionsStoppedError:
                raise
            except FunctionError:
                continue
    ((job, reason),) = called.stopped
    assert job == "shop/sections" and "\n" not in reason
    assert called.processes() == []
    with pytest.raises(FunctionsStoppedError):
        called(["/etc/hosts"])
    assert len(called.stopped) == 1
    # Far from a limit, and yet less than a machine that does other things may take.
    assert time.monotonic() - began_s < 15


def test_nothing_of_the_agent_is_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELF_TOKEN_FILE", "secret")
    with open("/dev/null") as file:
        os.set_inheritable(file.fileno(), True)
        called = Called(f"{POSIX}def f(x): return str(sorted(posix().environ))")
        try:
            assert "TOKEN" not in called(["x"])[0]
            (pid,) = called.processes()
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
            links = {os.readlink(each) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
            assert {link.partition(":")[0] for link in links} == {"/dev/null", "pipe"} and len(links) == 3
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
            assert f"Max address space         {256 << 20}" in limits and "Max core file size        0" in limits
            assert os.getsid(pid) == pid
        finally:
            called.runners.close()


def test_long_texts_are_asked_and_answered_in_parts() -> None:
    called = Called("def f(x): return x")
    try:
        texts = [str(number) * 100_000 for number in range(10)] * 5
        assert called(texts) == texts
        assert called(["x" * (9 << 20)]) == ["x" * (9 << 20)]
    finally:
        called.runners.close()


def test_where_functions_cannot_be_confined_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.agents.extensions.signed.confinement.platform.machine", lambda: "sparc64")
    with pytest.raises(JobSpecError, match="the system calls of sparc64 are not known"):
        Called("def f(x): return x")


def test_a_process_that_cannot_confine_itself_is_given_no_source(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = process._PROGRAM.parent
    (tmp_path / "child.py").write_text((folder / "child.py").read_text())
    confining = (folder / "confinement.py").read_text()
    (tmp_path / "confinement.py").write_text(
        confining.replace("_MODE_FILTER = 1, 22, 38, 2", "_MODE_FILTER = 1, 22, 38, 9")
    )
    monkeypatch.setattr(process, "_PROGRAM", tmp_path / "child.py")
    called = Called("def f(x): return x")
    with pytest.raises(FunctionsStoppedError, match=r"cannot confine itself: .*prctl refuses"):
        called(["x"])
    with pytest.raises(FunctionsStoppedError, match="cannot begin here now"):
        called(["x"])
    assert called.processes() == [] and called.stopped == []
    # That is this machine's fault, and not the function's: once it can, it goes on.
    monkeypatch.undo()
    (runner,) = called.runners._all()
    assert runner._resting_until_s > time.monotonic()
    runner._resting_until_s = 0.0
    assert called(["x"]) == ["x"]
    called.runners.close()


@pytest.mark.parametrize("called", ["def f(x): return ' '.join({str(n) + x for n in range(9)})"], indirect=True)
def test_sets_are_in_the_same_order_in_every_process(called: Called) -> None:
    first = called(["a"])
    called.runners.rest(0.0)
    assert called(["a"]) == first


ORPHAN = """
import os, sys
import polars as pl
from elf.agents.language.own_functions import OwnFunction
from elf.agents.language.types import SqlType
from elf.agents.extensions.signed import allowance, process
from elf.agents.extensions.signed.process import GaveUpError
from elf.agents.extensions.signed.runners import Runner, Runners
source = "def f(x):\\n    while x == 'loop': pass\\n    return x"
function = OwnFunction(name="f", args=("STRING",), returns="STRING", source=source)
call = Runners(None).admit("shop", "sections", [function])[0]
call([pl.Series(["x"])])
print(open(f"/proc/self/task/{os.getpid()}/children").read(), flush=True)
call([pl.Series(["loop"])])
"""


def lives(pid: str) -> bool:
    """Whether there is such a process, and not only its name waiting for somebody to ask how it ended."""
    try:
        return "zombie" not in pathlib.Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_process_dies_with_the_agent_whatever_it_does() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        pid = agent.stdout.readline().strip()
        assert lives(pid)
        agent.kill()
        agent.wait()
    deadline_s = time.monotonic() + 30
    while lives(pid):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
