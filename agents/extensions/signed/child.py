"""The program of the process that signed functions run in: `python -S -P child.py PARENT`, and questions on its stdin.

It confines itself first, and only then reads sources. Standard library only, and nothing of elf but `confinement`,
which lies beside it: the process has no site-packages. A message is 4 bytes of length and that much JSON.

                                                           -> ["confined"], or ["open", why] and no more
    [{"name", "args", "returns", "strict", "source"}, ...] -> ["ready"] or ["fails", function, why]
    [number, function, [column, ...]]                      -> ["answers", number, [value, ...], failed, why]

A column has one value for each row: DATE in days and TIMESTAMP in microseconds since 1970, all else as JSON has it.
`failed` rows have no answer, for the function raises on them, the first of them `why`. Out of memory: ["memory"].
"""

from __future__ import annotations

import builtins
import datetime
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import confinement  # type: ignore[import-not-found]

# What else lies here is none of the standard library's.
sys.path.pop(0)

#: What sources may import: what computes. Loaded before the process can open files no more.
MODULES = (
    *("base64", "binascii", "bisect", "collections", "datetime", "decimal", "fractions", "functools", "heapq", "html"),
    *("ipaddress", "itertools", "json", "math", "operator", "re", "statistics", "string", "textwrap", "typing"),
    *("unicodedata", "urllib.parse", "zlib", "__future__"),
)
#: Loaded by some of these when first needed.
_LAZY = ("_strptime", "encodings.idna", "encodings.latin_1", "encodings.utf_16", "encodings.punycode", "html.entities")
#: Kept from sources, so that mistakes get a sentence; what holds them back is the kernel.
_HIDDEN = ("open", "input", "breakpoint", "exec", "eval", "compile", "exit", "quit", "help", "print")
_REASON_CHARS_MAX = 200
_EPOCH, _DAY_0 = datetime.datetime(1970, 1, 1), datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_TIMES = {"TIMESTAMP", "DATE"}


def main() -> None:
    """Confine the process, then answer until the pipe is closed."""
    confinement.die_with(int(sys.argv[1]))
    confinement.be_killed_first()
    questions, answers = _take_pipes()
    for module in (*MODULES, *_LAZY):
        importlib.import_module(module)
    sys.argv[:] = [""]
    try:
        confinement.confine()
    except OSError as error:
        _send(answers, ["open", str(error)])
        os._exit(1)
    _send(answers, ["confined"])
    try:
        _serve(questions, answers)
    except MemoryError:
        _send(answers, ["memory"])
    finally:
        # An end with tracebacks and signals put back would take calls that are not allowed any more.
        os._exit(0)


def _take_pipes() -> tuple[int, int]:
    """Put the pipes beside what sources might read or print, which becomes nothing; close all else."""
    questions, answers = os.dup(0), os.dup(1)
    nothing = os.open("/dev/null", os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nothing, each)
    for each in map(int, os.listdir("/proc/self/fd")):
        if each > 2 and each not in (questions, answers):
            try:
                os.close(each)
            except OSError:
                continue  # that of the listing itself
    return questions, answers


def _serve(questions: int, answers: int) -> None:
    functions: list[tuple[Callable[..., Any], dict[str, Any]]] = []
    for number, told in enumerate(_receive(questions)):
        try:
            functions.append((_load(told["name"], told["source"]), told))
        except MemoryError:
            raise
        except BaseException as error:
            _send(answers, ["fails", number, _brief(error)])
            return
    _send(answers, ["ready"])
    while True:
        number, index, columns = _receive(questions)
        function, told = functions[index]
        _send(answers, ["answers", number, *_answer(function, told, columns)])


def _load(name: str, source: str) -> Callable[..., Any]:
    """Run a source, and return the function of that name in it."""
    known = {each: value for each, value in vars(builtins).items() if each not in _HIDDEN}
    known |= {"__import__": _import, "print": lambda *values, **options: None}
    names: dict[str, Any] = {"__builtins__": known, "__name__": name}
    exec(compile(source, f"<function {name}>", "exec", dont_inherit=True), names)
    found = names.get(name)
    if not callable(found):
        raise TypeError(f"the source defines no function {name}")
    function: Callable[..., Any] = found
    return function


def _import(name: str, *rest: Any, **named: Any) -> Any:
    # What these load themselves when first used comes here, too.
    if name not in (*MODULES, *_LAZY, "urllib"):
        raise ImportError(f"{name} cannot be imported here: functions have math, re, json and others that compute")
    return builtins.__import__(name, *rest, **named)


def _answer(function: Callable[..., Any], told: dict[str, Any], columns: list[list[Any]]) -> tuple[list[Any], int, str]:
    """Call a function for each row; return answers, how many rows have none because it raises, and the first reason."""
    args, returns, strict = told["args"], told["returns"], told["strict"]
    converts = not _TIMES.isdisjoint(args)
    answers: list[Any] = []
    failed, why = 0, ""
    for row in zip(*columns, strict=True):
        if strict and None in row:
            answers.append(None)
            continue
        try:
            # A time that Python does not have fails like the function itself.
            given = map(_given, row, args) if converts else row
            answers.append(_conformed(function(*given), returns))
        except MemoryError:
            raise
        except BaseException as error:
            answers.append(None)
            why = why or _brief(error)
            failed += 1
    return answers, failed, why


def _given(value: Any, kind: str) -> Any:
    if value is None or kind not in _TIMES:
        return value
    return _EPOCH + value * _MICROSECOND if kind == "TIMESTAMP" else _DAY_0 + datetime.timedelta(days=value)


def _conformed(value: Any, kind: str) -> Any:
    """Return an answer as it travels; raises TypeError if it is not of the declared type."""
    if value is None:
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind == "BOOLEAN" and isinstance(value, bool):
        return bool(value)
    if kind in ("INT", "BIGINT") and is_number and -(bound := 2 ** (31 if kind == "INT" else 63)) <= value < bound:
        return int(value)
    if kind == "DOUBLE" and (is_number or isinstance(value, float)):
        return float(value)
    if kind == "STRING" and isinstance(value, str):
        value.encode()  # half a pair of surrogates is no text
        return str(value)
    if kind == "DATE" and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return (value - _DAY_0).days
    if kind == "TIMESTAMP" and isinstance(value, datetime.datetime):
        moved = value if value.tzinfo is None else value.astimezone(datetime.timezone.utc)  # noqa: UP017
        return (moved.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    shown = repr(value)
    raise TypeError(f"it returned {shown if len(shown) <= 60 else shown[:57] + '...'}, which is no {kind}")


def _brief(error: BaseException) -> str:
    try:
        text = (str(error).strip().splitlines() or [""])[0][:_REASON_CHARS_MAX]
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _receive(pipe: int) -> Any:
    return json.loads(_read(pipe, int.from_bytes(_read(pipe, 4), "big")))


def _read(pipe: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(pipe, size - len(parts))
        if not part:
            os._exit(0)
        parts += part
    return bytes(parts)


def _send(pipe: int, message: list[Any]) -> None:
    body = json.dumps(message).encode()
    rest = memoryview(len(body).to_bytes(4, "big") + body)
    while rest:
        rest = rest[os.write(pipe, rest) :]


if __name__ == "__main__":
    main()
