"""Access logs against Python's `re`, line by line, garbage included."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.language.types import SqlType
from elf.agents.sources import access_log
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.lines import LINE_BYTES_MAX, split

PATTERN = re.compile(
    r"(?P<remote_addr>.*?) .*? (?P<remote_user>.*?) "
    r"\[(?P<time>[0-9]{2}/[A-Za-z]{3}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4})\] "
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>-|[0-9]+) (?P<bytes>-|[0-9]+) '
    r'"(?P<referer>(?:[^"\\]|\\.)*)" "(?P<user_agent>(?:[^"\\]|\\.)*)"'
)
REQUEST = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (.+) (HTTP/[0-9](?:\.[0-9])?)")
COMBINED = make_format("combined")
assert COMBINED.columns is not None

TIMES = st.sampled_from(
    ["20/Nov/2026:10:00:00 +0000", "29/Feb/2024:23:59:59 -0330", "31/Feb/2026:10:00:00 +0000", "1/Nov/2026", ""]
)
REQUESTS = st.sampled_from(
    [
        "GET /a?b=1 HTTP/1.1",
        "GET /a b?c d HTTP/1.0",
        "GET /?a?b HTTP/2",
        "GET ?x HTTP/1.1",
        "GET  HTTP/1.1",
        "GET / HTTP/1.1 HTTP/1.1",
        "",
        "-",
        r"\x16\x03\x01",
        r"GET /\"quoted\" HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "GET /",
        "\\",
    ]
)
TEXTS = st.sampled_from(
    ["-", "", "curl/8", r"a \"b\" c", "Mozilla/5.0 (X11; Linux) é", 'an "open quote', "back\\"]
) | st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=8)
USERS = st.sampled_from(["-", "frank", "john doe", "[x] y", ""])
LINES = st.builds(
    lambda addr, user, time, request, status, size, referer, agent: (
        f'{addr} - {user} [{time}] "{request}" {status} {size} "{referer}" "{agent}"'
    ),
    st.sampled_from(["127.0.0.1", "::1", "example.org", ""]),
    USERS,
    TIMES,
    REQUESTS | TEXTS,
    st.sampled_from(["200", "404", "000", "-", "x"]),
    st.sampled_from(["0", "5316", "-", "99999999999", ""]),
    TEXTS,
    TEXTS,
) | st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=30)


def expected(line: str) -> dict[str, object] | None:
    match = PATTERN.fullmatch(line)
    if match is None:
        return None
    fields = match.groupdict()
    try:
        at = datetime.strptime(fields.pop("time"), "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        return None
    row: dict[str, object] = {name: None if value == "-" else value for name, value in fields.items()}
    row["ts"] = at.astimezone(UTC).replace(tzinfo=None)
    row["status"] = None if fields["status"] == "-" else int(fields["status"])
    row["bytes"] = 0 if fields["bytes"] == "-" else int(fields["bytes"])
    request = REQUEST.fullmatch(fields["request"])
    method, uri, protocol = request.groups() if request else (None, None, None)
    path, mark, query = (uri or "").partition("?")
    row |= {"method": method, "uri": uri, "protocol": protocol, "request_malformed": request is None}
    row |= {"path": path if request else None, "query": query if mark else None}
    return row


@settings(max_examples=400)
@given(st.lists(LINES, max_size=6), st.sampled_from([1, 150, 1 << 20]))
def test_every_line_ends_as_re_says(lines: list[str], block_bytes: int) -> None:
    assert COMBINED.columns is not None
    with patch.object(access_log, "_BLOCK_BYTES", block_bytes):
        parsed = parse_chunk(COMBINED, "".join(line + "\n" for line in lines).encode(), COMBINED.columns)
    rows = [row for line in lines if (row := expected(line.removeprefix("\ufeff"))) is not None]
    assert parsed.events.to_dicts() == [{name: row[name] for name in parsed.events.columns} for row in rows]
    assert parsed.counters == Counters(read=len(lines), parsed=len(rows), rejected=len(lines) - len(rows))
    assert {reason for _, reason in parsed.rejects} <= {"format", "time"}


@pytest.mark.parametrize("wanted", ["status", "path", "query", "method", "request_malformed", "bytes"])
def test_any_column_can_be_asked_for_alone(wanted: str) -> None:
    line = '1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "POST /p?q HTTP/1.1" 201 - "-" "-"'
    assert COMBINED.columns is not None
    events = parse_chunk(COMBINED, f"{line}\n".encode(), {wanted: COMBINED.columns[wanted]}).events
    row = expected(line)
    assert row is not None
    assert events.to_dicts() == [{"ts": row["ts"], wanted: row[wanted]}]


def test_common_and_columns_that_are_not_there() -> None:
    common = make_format("common")
    line = b'1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 7\n'
    row = parse_chunk(common, line, {"bytes": SqlType.BIGINT, "nothing": SqlType.STRING}).events.row(0, named=True)
    assert (row["bytes"], row["nothing"]) == (7, None)
    assert parse_chunk(common, line.replace(b"7", b'7 "-" "-"'), {}).counters.rejected == 1


def test_a_literal_skips_lines() -> None:
    line = '1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET /{} HTTP/1.1" 200 7 "-" "-"\n'
    chunk = "".join(line.format(name) for name in ("a", "b", r"\"a\"")).encode()
    parsed = parse_chunk(COMBINED, chunk, {"path": SqlType.STRING}, [["/a"]])
    assert parsed.events["path"].to_list() == ["/a"]
    assert parsed.counters == Counters(read=3, parsed=1, filtered=2)


def test_invalid_utf8_is_replaced_and_counted() -> None:
    line = b'1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET /\xff HTTP/1.1" 200 7 "-" "-"\n'
    parsed = parse_chunk(COMBINED, line, {"path": SqlType.STRING})
    assert parsed.events["path"].to_list() == ["/\ufffd"]
    assert parsed.oddities.bad_encoding == 1


def test_lines_are_taken_apart_some_at_a_time() -> None:
    line = '1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET /{} HTTP/1.1" 200 7 "-" "-"\n'
    chunk = "".join(line.format("x" * (number % 40)) for number in range(200)).encode()
    with patch.object(access_log, "_BLOCK_BYTES", 1_000), patch.object(access_log, "split", wraps=split) as taken:
        parsed = parse_chunk(COMBINED, chunk, {"path": SqlType.STRING})
    blocks = [call.args[0] for call in taken.call_args_list]
    assert b"".join(blocks) == chunk and all(block.endswith(b"\n") for block in blocks)
    assert len(blocks) > 10 and max(map(len, blocks)) < 1_000 + len(line) + 40
    assert parsed.events["path"].str.len_bytes().to_list() == [1 + number % 40 for number in range(200)]


def test_a_huge_line_is_kept_with_what_its_front_holds() -> None:
    front = b'1.2.3.4 - joe [20/Nov/2026:10:00:00 +0000] "GET /'
    good = front + b' HTTP/1.1" 200 7 "-" "-"\n'
    parsed = parse_chunk(COMBINED, good + front + b"x" * LINE_BYTES_MAX + b"\n" + good, COMBINED.columns or {})
    assert parsed.counters == Counters(read=3, parsed=3)
    assert parsed.oddities.truncated == 1
    row = parsed.events.row(2, named=True)
    assert (row["remote_user"], row["request_malformed"], row["status"]) == ("joe", True, None)
    assert len(row["request"]) == LINE_BYTES_MAX - len(front) + len("GET /")


def test_a_huge_line_without_time_is_rejected() -> None:
    parsed = parse_chunk(COMBINED, b"x" * 2 * LINE_BYTES_MAX + b"\n", {})
    assert parsed.counters == Counters(read=1, rejected=1)
