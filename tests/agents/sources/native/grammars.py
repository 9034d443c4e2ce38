"""Values of each kind as logs have them, values that look alike, and layouts of all sorts, drawn by a generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from elf.agents.errors import ConfigError
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import Field, Layout, Part, Token, checked
from elf.agents.sources.times.notations import NOTATIONS, Notation

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Bytes with a meaning somewhere.
ODD = " \t\"'-:,.[]{}()/?%\\=+_*<>|@#;~\x00\x01\x1f\x7fé€ü😀09afFGzZ"
#: What layouts have between fields.
_BETWEEN = (*[b" "] * 3, b",", b" - ", b":", b"/", b", ", b"\t", b" \xc3\xa9 ", b" behind it, so long ")
#: Other notations than those that have a name.
_STRFTIME = (
    *("%d/%m/%Y:%H:%M:%S", "%Y-%j %I:%M:%S%p", "%e %b %y %H:%M"),
    *("%s.%3", "%Q", "%X", "%9%S%6 %d %m %Y", "%a%f%_%z"),
)
TIMES = (*NOTATIONS.values(), *(Notation(text, text, text) for text in _STRFTIME))


def _digits(rng: random.Random, most: int, least: int = 1) -> str:
    return "".join(rng.choice(_DIGITS) for _ in range(rng.randint(least, most)))


def _letters(rng: random.Random, most: int, least: int = 1) -> str:
    return "".join(rng.choice(_LETTERS) for _ in range(rng.randint(least, most)))


def _odd(rng: random.Random, most: int) -> str:
    return "".join(rng.choice(ODD) for _ in range(rng.randint(0, most)))


def _ipv4(rng: random.Random) -> str:
    most = rng.choice((9, 99, 255, 255, 260))
    parts = [str(rng.randint(0, most)) for _ in range(rng.choice((4, 4, 4, 4, 4, 4, 3, 5)))]
    return ".".join(parts) if rng.random() < 0.95 else ".0".join(parts)


def _ipv6(rng: random.Random) -> str:
    groups = [f"{rng.getrandbits(rng.choice((4, 8, 16))):x}" for _ in range(rng.choice((8, 8, 7, 9, 3, 1)))]
    if rng.random() < 0.6:
        at = rng.randint(0, len(groups))
        groups[at : at + rng.randint(0, 4)] = [""]
    text = ":".join(groups)
    text = rng.choice((text, text, "::" + text, text + "::", "::", f"::ffff:{_ipv4(rng)}", "fe80::1%eth0", text + "%"))
    return rng.choice((text, text, f"[{text}]"))


def _name(rng: random.Random) -> str:
    labels = [_letters(rng, 9) if rng.random() < 0.8 else _digits(rng, 3) for _ in range(rng.randint(1, 4))]
    return rng.choice((".", ".", ".", "-", "_", "..")).join(labels) + rng.choice(("", "", "", ".", "-"))


def _peer(rng: random.Random) -> str:
    host = rng.choice((_ipv4, _ipv4, _ipv6, _name))(rng)
    host += rng.choice(("", "", f":{_digits(rng, 6)}", ":"))
    others = ("unix:", "unix:/run/a.sock", "unknown", "localhost", "_hidden", "http://" + host)
    return rng.choice((*[host] * 5, *others))


def _list(item: Callable[[random.Random], str], rng: random.Random) -> str:
    items = [item(rng) if rng.random() < 0.9 else "-" for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return rng.choice((", ", ", ", " : ", ",", " ")).join(items)


def _integer(rng: random.Random) -> str:
    digits = rng.choice((_digits(rng, 5), _digits(rng, 25), "0", "00", "9223372036854775808"))
    return rng.choice(("", "", "", "-", "+")) + digits


def _number(rng: random.Random) -> str:
    whole = rng.choice((_digits(rng, 5), _digits(rng, 5), _digits(rng, 30), "", "0"))
    part = rng.choice(("", ".", f".{_digits(rng, 3)}", f".{_digits(rng, 20)}"))
    exponent = rng.choice(("", "", "", f"e{_integer(rng)}", f"E-{_digits(rng, 3)}", "e"))
    return rng.choice(("", "", "-", "+")) + whole + part + exponent


def _duration(rng: random.Random) -> str:
    return _number(rng) + rng.choice(("", "ms", "s", "us", "ns", "µs", "μs", "m", "h", "ks", " s"))


def _uri(rng: random.Random) -> str:
    path = "/" + "/".join(_letters(rng, 12) for _ in range(rng.randint(0, 5)))
    query = rng.choice(("", "", "?", f"?a={_letters(rng, 9)}&b", "?a?b"))
    host = rng.choice(("", "", "", f"http://{_peer(rng)}", "https://a.example", "ftp+x.y-z://", "1http://a"))
    return rng.choice((host + path + query, host + query, _peer(rng), "*", "", "//a/b", "é/€"))


def _request(rng: random.Random) -> str:
    method = rng.choice(("GET", "GET", "POST", "-", "M-SEARCH", "get", "", "G(T"))
    protocols = ("HTTP/1.1", "HTTP/1.1", "HTTP/2", "HTTP/2.0", "http/1.1", "HTTP/1.10", "/1.1", "HTTP/", "X/1.")
    uri, protocol = _uri(rng), rng.choice(protocols)
    texts = (f"{method} {uri} {protocol}", f"{method} {uri} x {protocol}", f"{method}  {protocol}", "-", "")
    return rng.choice(texts)


def _quoted(rng: random.Random) -> str:
    texts = (
        "-",
        "",
        f"Mozilla/5.0 ({_letters(rng, 90)}) {_digits(rng, 3)}",
        f'{_letters(rng, 70, 50)}\\"{_letters(rng, 20)}\\\\',
        f"https://{_name(rng)}{_uri(rng)}",
        _odd(rng, 20),
        "\\" * rng.randint(1, 80),
    )
    return rng.choice(texts)


def _user(rng: random.Random) -> str:
    word = rng.choice((_letters(rng, 12), "frank", "é", _name(rng), _peer(rng), "a@b", "09:15", _odd(rng, 4)))
    word = rng.choice((word, word, word, f'\\"{word}', f'{word}\\"', f'{word}\\\\"', f"{word}\\", f"DOM\\{word}"))
    return rng.choice(("-", "-", '""', word, f"{word} {_letters(rng, 8)}", f"{word} {word}", ""))


def time_text(notation: Notation, rng: random.Random) -> str:
    """Draw a time of a notation, now and then one that there is not."""
    texts = {
        "Y": f"{rng.choice((2026, 2024, 1970, 1900, 2000, 1, 9999, 0)):04}",
        "y": f"{rng.randint(0, 99):02}",
        "m": f"{rng.randint(1, 12 if rng.random() < 0.95 else 14):02}",
        "d": f"{rng.randint(1, 28 if rng.random() < 0.6 else 32):02}",
        "j": f"{rng.choice((1, 60, 365, 366, 367)):03}",
        "H": f"{rng.randint(0, 23 if rng.random() < 0.95 else 25):02}",
        "M": f"{rng.randint(0, 59 if rng.random() < 0.95 else 61):02}",
        "S": f"{rng.randint(0, 60 if rng.random() < 0.95 else 62):02}",
        "I": f"{rng.randint(1, 12 if rng.random() < 0.95 else 13):02}",
        "p": rng.choice(("AM", "PM", "am", "pm", "XM")),
        "e": f"{rng.randint(1, 31):2}",
        "b": rng.choice(_MONTHS) if rng.random() < 0.97 else "jan",
        "a": rng.choice(("Mon", "Sun", "Thu", "Xxx")),
        "f": rng.choice(("", "", ".1", ",123", ".123456789", ".", f".{_digits(rng, 11)}")),
        "3": _digits(rng, 3, 3),
        "6": _digits(rng, 6, 6),
        "9": _digits(rng, 9, 9),
        "t": rng.choice("TT t"),
        "z": rng.choice(("Z", "+0000", "-0930", "+01:00", "+01", "+19:00", "+0160", "z", "+1", "+01:")),
        "_": rng.choice(("", "", " ")),
        "u": rng.choice(("", "", " UTC", " CEST", " ABCDE", " GM", " Utc")),
        "G": rng.choice(("GMT", "UTC", "CET")),
        "s": _digits(rng, 12),
        "Q": _digits(rng, 21) + rng.choice(("", ".5", ".123", ".", ",1")),
        "X": f"{rng.getrandbits(32):08x}",
    }
    return "".join(texts[item[1]] if item[0] == "%" else item for item in notation.items)


def _glued(rng: random.Random) -> str:
    """Return a text with the time of another line in it, or with what is nearly one."""
    time = rng.choice(("[26/Nov/2026:09", "[26/Nov/2026", "[2x/Nov/2026:", "[26/\u00fcx/2026:", "[[26/Nov/2026:"))
    return f'{_quoted(rng)}"{time}"{_quoted(rng)}'


_VALUES: dict[Kind, Callable[[random.Random], str]] = {
    Kind.WORD: lambda rng: rng.choice((_letters(rng, 30), _name(rng), _odd(rng, 5), "-")),
    Kind.QUOTED: _quoted,
    Kind.QTEXT: lambda rng: rng.choice(("-", f'"{_quoted(rng)}"', f'"{_quoted(rng)}"', '"-"', "x")),
    Kind.QREQUEST: lambda rng: rng.choice(("-", f'"{_request(rng)}"')),
    Kind.LOOSE: lambda rng: rng.choice((_quoted(rng), f'a"{_quoted(rng)}"b', '"', '" "', _glued(rng))),
    Kind.BRACED: lambda rng: rng.choice((f"{{{_name(rng)}}}", "{}", "{-}", "{a", "a}")),
    Kind.IP: lambda rng: rng.choice((_ipv4, _ipv4, _ipv6, _peer))(rng),
    Kind.ADDR: lambda rng: rng.choice((_ipv4(rng), _ipv4(rng), _ipv6(rng), _name(rng), _peer(rng), "${jndi}", "a;b")),
    Kind.HOST: lambda rng: (
        rng.choice(("", "", "", "*.", ".", "~", "*")) + rng.choice((_name, _ipv4, _ipv6, _peer))(rng)
    ),
    Kind.ADDRESSES: lambda rng: _list(_peer, rng),
    Kind.UPSTREAMS: lambda rng: _list(_peer, rng),
    Kind.STATUSES: lambda rng: _list(lambda each: each.choice(("200", "502", "0", "20", "2000")), rng),
    Kind.NUMBERS: lambda rng: _list(_number, rng),
    Kind.IDENT: lambda rng: rng.choice(("-", "-", _letters(rng, 6), "localhost", "a-b_1", "1a")),
    Kind.USER: _user,
    Kind.REQUEST: _request,
    Kind.METHOD: lambda rng: rng.choice(("GET", "POST", "M-SEARCH", "-", "", "G T", "ü")),
    Kind.PROTOCOL: lambda rng: rng.choice(("HTTP/1.1", "HTTP/2", "-", "http/1.1", "HTTP/1.", "HTTP/11")),
    Kind.URI: _uri,
    Kind.QUERY: lambda rng: rng.choice(("", "?", f"?{_letters(rng, 20)}", "a=b", "-")),
    Kind.STATUS: lambda rng: rng.choice(("200", "404", "0", "-1", "-", "20", "2000", "+20", "00")),
    Kind.INT: _integer,
    Kind.BYTES: lambda rng: rng.choice((_integer(rng), _digits(rng, 18), "-")),
    Kind.NUMBER: lambda rng: rng.choice((_number(rng), "-")),
    Kind.DURATION: _duration,
    Kind.HEX: lambda rng: rng.choice((f"{rng.getrandbits(128):032x}", f"{rng.getrandbits(64):X}", "-", "0x1")),
    Kind.STREAM: lambda rng: rng.choice(("stdout", "stderr", "stdin")),
    Kind.PART: lambda rng: rng.choice("PFX"),
    Kind.TEXT: lambda rng: rng.choice((_quoted(rng), _odd(rng, 9), "", "-", '"a')),
    Kind.REST: lambda rng: rng.choice(("", "-", _quoted(rng), _odd(rng, 9))),
}


def value_of(field: Field, rng: random.Random) -> str:
    """Draw a text for a field: mostly one of its kind, now and then of another, or none at all."""
    pads = " " * rng.choice((0, 0, 1, 3)) if field.pads else ""
    chance = rng.random()
    if chance < 0.03:
        return pads + rng.choice(list(_VALUES.values()))(rng)
    if chance < 0.05:
        return pads + _odd(rng, 6)
    is_time = field.kind is Kind.TIME
    text = time_text(rng.choice(field.notations), rng) if is_time else _VALUES[field.kind](rng)
    return pads + (_cell(text, rng) if field.cell else text)


def _cell(text: str, rng: random.Random) -> str:
    text = f"[{text}]" if rng.random() < 0.1 else text
    doubled = text.replace('"', '""') if rng.random() < 0.9 else text
    return f'"{doubled}"' if rng.random() < 0.6 else rng.choice((text, "", "-", doubled))


def line_of(tokens: Sequence[Token], rng: random.Random) -> str:
    """Draw a line that may fit a layout."""
    texts = []
    for token in tokens:
        if isinstance(token, bytes):
            texts.append(token.decode() if rng.random() < 0.99 else _odd(rng, 3))
        elif isinstance(token, Field):
            texts.append(value_of(token, rng))
        elif rng.random() < 0.6:
            texts.append(line_of(token.tokens, rng))
    return "".join(texts)


def layout_of(rng: random.Random) -> Layout:
    """Draw a layout that is not ambiguous."""
    while True:
        try:
            return checked(Layout(_tokens(rng, rng.randint(1, 7)), rng.random() < 0.1))
        except ConfigError:
            continue


def _tokens(rng: random.Random, count: int, depth: int = 0) -> tuple[Token, ...]:
    found: list[Token] = []
    for number in range(count):
        found += _wrapped(rng, _field(rng))
        if number + 1 < count:
            found.append(rng.choice(_BETWEEN))
        if depth == 0 and rng.random() < 0.15:
            mark = rng.choice((b"*", b"<", b"(", b"[client "))
            found.append(Part((mark, *_tokens(rng, 1, 1), rng.choice((b" ", b") ", b"] ")))))
    merged: list[Token] = []
    for token in found:
        if isinstance(token, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += token
        else:
            merged.append(token)
    return tuple(merged)


def _field(rng: random.Random) -> Field:
    kind = rng.choice(tuple(Kind))
    # Few columns, so that some come twice.
    column = rng.choice(("ts", "ts", "u") if kind is Kind.TIME else ("", "a", "b", "c", "d", "e", "f", "g"))
    notations = tuple(rng.sample(TIMES, rng.randint(1, 3))) if kind is Kind.TIME else ()
    ends = rng.choice((b"",) * 9 + (b",", b"\t"))
    pads, is_cell, may_lack = rng.random() < 0.1, rng.random() < 0.15, rng.random() < 0.1
    return Field(column, kind, notations, pads, is_cell, may_lack, ends)


def _wrapped(rng: random.Random, field: Field) -> list[Token]:
    wraps: tuple[tuple[bytes, bytes], ...] = ((b'"', b'"'), (b"[", b"]"), (b"{", b"}"), (b"(", b")"))
    if field.kind is Kind.LOOSE or (field.kind in (Kind.QUOTED, Kind.REQUEST) and rng.random() < 0.8):
        return [b'"', field, b'"']
    if rng.random() < 0.2:
        begin, end = rng.choice(wraps)
        return [begin, field, end]
    return [field]
