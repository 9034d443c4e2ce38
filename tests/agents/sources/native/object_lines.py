"""Lines that are objects, nearly objects, or anything else, drawn by a generator."""

from __future__ import annotations

import json
import random

NAMES = ("ts", "a", "b", "a.b", "é", "n", "x", "long name of a member that has many bytes", 'q"', "\ud83d", "")
COLUMNS = ("ts", "a", "a.b", "a.b.x[1]", "b[0].n", "é", "x", "['long name of a member that has many bytes'].a", 'q"')
_ESCAPES = ("\\n", "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\ude00", '\\"', "\\/", "\\\\", "\\u0031", "\\ud83dx")
_BAD = ("\\x", "\\u12", "\\u12G4", "\x01", "\t", "\\", "\ud83d")
_NUMBERS = (
    *("0", "-0", "1", "-1", "2.0", "2e3", "2.5", "1e400", "-1e-400", "1E+2", "123456789", "12345678", "1.5e300"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "2147483648"),
    *("-2147483648", "0.1", "1046.8333333333335", "12345678901234567890.5", "1e22", "1e23", "9007199254740993.0"),
)
_BROKEN = ("01", "-", "1.", ".5", "1e", "1e+", "+1", "NaN", "-Infinity", "0x1", "tru", "nul", "True", "", "'a'", "1 2")
_TIMES = (
    *('"2026-11-26T09:00:00Z"', '"2026-11-26 09:00:00.123456789+01:00"', '"2026-11-26t09:00:00.1z"', "1795683600"),
    *(
        "1795683600.123",
        "1795683600.1234567",
        "1795683600123",
        '"2026-02-29T00:00:00Z"',
        '"26/Nov/2026:09:00:00 +0000"',
    ),
    *(
        "1795683600.1230000001",
        "1795683600.122999999",
        "-5",
        '"0001-01-01T00:00:00+00:01"',
        '"2026-11-26T09:00:00+1900"',
    ),
    *(
        '"2026-11-26T09:00:60Z"',
        '"2026-11-26T09:00:00."',
        '"2026-11-26T09:00:00+01"',
        "1e300",
        '"9999-12-31T23:59:59-18"',
    ),
)


def spaces(rng: random.Random) -> str:
    """Draw what may stand between the parts of an object."""
    return rng.choice(("", "", "", "", " ", "  ", "\t", " \r "))


def text(rng: random.Random) -> str:
    """Draw a text with its quotes."""
    parts = [
        rng.choice(("a", "é", "plain text ", "x" * rng.randint(1, 90), *_ESCAPES)) for _ in range(rng.randint(0, 4))
    ]
    if rng.random() < 0.02:
        parts.append(rng.choice(_BAD))
    return '"' + "".join(parts) + '"'


def value(rng: random.Random, depth: int = 0) -> str:
    """Draw a value: mostly one, now and then none."""
    chance = rng.random()
    if chance < 0.25 and depth < 4:
        return members(rng, depth + 1)
    if chance < 0.35 and depth < 4:
        items = (value(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 3))))
        return "[" + f"{spaces(rng)},{spaces(rng)}".join(items) + spaces(rng) + "]"
    if chance < 0.55:
        return text(rng)
    if chance < 0.6:
        return json.dumps(rng.choice(_NUMBERS))
    if chance < 0.65:
        return rng.choice(_TIMES)
    if chance < 0.66:
        return rng.choice(_BROKEN)
    if chance < 0.67:
        deep = rng.choice((50, 197, 198, 199, 200, 201, 250))
        return "[" * deep + "]" * deep
    if chance < 0.85:
        return rng.choice(_NUMBERS)
    return rng.choice(("true", "false", "null", '"true"', '"FALSE"', '"tRuE"', '" true"', "[]", "{}"))


def members(rng: random.Random, depth: int = 0) -> str:
    """Draw an object."""
    parts = []
    for _ in range(rng.choice((0, 1, 2, 3, 5)) if depth else rng.choice((1, 3, 6))):
        name = rng.choice(NAMES)
        written = json.dumps(name, ensure_ascii=rng.random() < 0.3) if name != "\ud83d" else '"\\ud83d"'
        if rng.random() < 0.05:
            written = '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"'
        parts.append(f"{written}{spaces(rng)}:{spaces(rng)}{value(rng, depth)}")
    comma = f"{spaces(rng)},{spaces(rng)}" if rng.random() < 0.98 else rng.choice((",,", ";", " "))
    return "{" + spaces(rng) + comma.join(parts) + spaces(rng) + rng.choice(("}",) * 60 + ("", "]", ",}", "}}"))


def line(rng: random.Random) -> bytes:
    """Draw a line."""
    chance = rng.random()
    if chance < 0.03:
        return bytes(rng.choice(b' {}[]",:\\0a\x00\xff\xc3') for _ in range(rng.randint(0, 30)))
    found = spaces(rng) + members(rng) + spaces(rng)
    data = found.encode("utf-8", "replace")
    if chance < 0.2:
        at = rng.randint(0, len(data))
        behind = at + rng.randint(0, 3)
        data = data[:at] + bytes(rng.choice(b'{}[]",:\\ue0-. \x01') for _ in range(rng.randint(0, 2))) + data[behind:]
    elif chance < 0.25:
        data = data[: rng.randint(0, len(data))]
    # What is cut may be no UTF-8 any more, which kernels are not given.
    return data.replace(b"\n", b" ").decode("utf-8", "replace").encode()


def lines(rng: random.Random, count: int) -> list[bytes]:
    """Draw lines, some of which look like the one before."""
    found = [line(rng)]
    while len(found) < count:
        chance = rng.random()
        if chance < 0.3:
            found.append(found[-1].replace(b"1", rng.choice((b"2", b"12", b"1 "))))
        elif chance < 0.4:
            found.append(found[-1].replace(b":", b": "))
        else:
            found.append(line(rng))
    return found
