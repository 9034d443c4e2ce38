"""Formats of literals and fields against the samples that LINES gives of each, as frames."""

from __future__ import annotations

import pathlib
import random
import re
import zoneinfo
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources import layout_lines
from elf.agents.sources.catalogue import HEADED, LAYOUTS, OBJECT_WRAPPERS, PAIRS, WRAPPERS
from elf.agents.sources.counters import REJECTS_MAX, Counters, Parsed
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.layouts.kinds import KINDS
from elf.agents.sources.lines import LINE_BYTES_MAX
from elf.agents.sources.times.notations import NOTATIONS
from tests.agents.sources.format_files import formats, layouts, rows, sample_lines

UTC = zoneinfo.ZoneInfo("UTC")
NOW_MS = 1_795_683_600_000
COMBINED = make_format("combined")
LINE = '1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET /{} HTTP/1.1" 200 7 "-" "-"\n'


def made(name: str, zone: str = "UTC") -> Format:
    return make_format(name, zone=zoneinfo.ZoneInfo(zone), now_ms=lambda: NOW_MS)


def parsed_lines(format: Format, *lines: str) -> Parsed:
    return parse_chunk(format, "".join(line + "\n" for line in lines).encode(), format.columns or {})


def is_as(row: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Tell whether a row is what a description says; what it does not name is null. The whole request it leaves out."""
    return all(row[name] == expected.get(name) for name in row if name != "request")


@pytest.mark.parametrize("name", layouts())
def test_samples_become_what_they_have_to(name: str) -> None:
    parsed = parsed_lines(made(name), *(sample["line"] for sample in layouts()[name]["samples"]))
    assert parsed.rejects == ()
    for row, sample in zip(rows(parsed), layouts()[name]["samples"], strict=True):
        assert is_as(row, sample["expect"]), sample["line"]
        assert set(sample["expect"]) <= set(row)


@pytest.mark.parametrize("name", layouts())
def test_what_looks_alike_is_refused(name: str) -> None:
    lines = layouts()[name]["refused"]
    parsed = parsed_lines(made(name), *lines)
    assert parsed.counters == Counters(read=len(lines), rejected=len(lines))


@pytest.mark.parametrize("name", ["syslog", "syslog-5424"])
def test_a_line_within_a_line(name: str) -> None:
    entry = formats()[name]
    format = made(f"{name}+{entry['wraps']}")
    parsed = parsed_lines(format, *(sample["line"] for sample in entry["samples"]))
    for row, sample in zip(rows(parsed), entry["samples"], strict=True):
        assert is_as(row, sample["expect"]), sample["line"]
    assert parsed_lines(format, *entry["refused"]).counters.rejected == len(entry["refused"])


def test_combined_takes_no_line_of_another_format_but_as_that_reads_it() -> None:
    taken = Counter[str]()
    for name, entry in formats().items():
        for sample in entry["samples"]:
            for row in rows(parsed_lines(COMBINED, sample["line"])):
                taken[name] += 1
                # Of absolute requests only who knows of them takes the host away.
                said = {key: value for key, value in sample["expect"].items() if key not in ("host", "path")}
                assert is_as({key: row[key] for key in said}, said), sample["line"]
    assert taken == {"combined": 3, "varnish": 3, "lighttpd": 1}


def test_the_catalogue_is_that_of_the_descriptions() -> None:
    assert set(LAYOUTS) == set(layouts())
    assert {"json", *LAYOUTS, *HEADED, *PAIRS, *WRAPPERS, *OBJECT_WRAPPERS} <= set(formats())
    for name, entry in layouts().items():
        assert len(LAYOUTS[name].layouts) == len(entry["layouts"])
        assert LAYOUTS[name].absolute == entry["absolute_requests"]


def test_torn_and_spliced_lines_move_no_value_into_another_column() -> None:
    """What is taken is a true reading: only quoted texts, requests and one short word as user can have changed."""
    rng = random.Random(1)
    own = [sample["line"] for sample in formats()["combined"]["samples"]]
    truth = dict(zip(own, rows(parsed_lines(COMBINED, *own)), strict=True))
    others = sample_lines()
    mutated: list[tuple[str, str]] = []
    for _ in range(4_000):
        line, other = rng.choice(own), rng.choice(others)
        words = line.split(" ")
        first, second = rng.randrange(len(words)), rng.randrange(len(words))
        kind = rng.randrange(4)
        if kind == 0:
            torn = line[: rng.randrange(len(line) + 1)] + other[rng.randrange(len(other) + 1) :]
        elif kind == 1:
            torn = other[: rng.randrange(len(other) + 1)] + line
        else:
            words[first] = rng.choice(other.split(" ")) if kind == 2 else words[second]
            torn = " ".join(words)
        mutated.append((line, torn))
    assert isinstance(COMBINED, LayoutLines)
    taken = [(line, torn) for line, torn in mutated if COMBINED.misfit(torn.encode()) is None]
    moved = 0
    for (line, torn), row in zip(taken, rows(parsed_lines(COMBINED, *(torn for _, torn in taken))), strict=True):
        assert row["remote_addr"] is None or row["remote_addr"] in torn
        assert row["remote_user"] is None or " " not in row["remote_user"] or row["remote_user"] in line
        moved += row["remote_addr"] != truth[line]["remote_addr"] and torn.count(row["remote_addr"] or "-") == 0
    assert moved == 0


@pytest.mark.parametrize("wanted", ["status", "path", "query", "method", "request_malformed", "bytes"])
def test_any_column_can_be_asked_for_alone(wanted: str) -> None:
    line = LINE.format("p?q").replace("200", "201").encode()
    assert COMBINED.columns is not None
    events = parse_chunk(COMBINED, line, {wanted: COMBINED.columns[wanted]}).events
    whole = parse_chunk(COMBINED, line, COMBINED.columns).events
    assert events.to_dicts() == whole.select("ts", wanted).to_dicts()


@pytest.mark.parametrize(
    ("column", "kind", "value", "mistyped"),
    [
        ("status", SqlType.STRING, "200", {}),
        ("status", SqlType.BIGINT, 200, {}),
        ("bytes", SqlType.DOUBLE, 7.0, {}),
        ("path", SqlType.BIGINT, None, {"path": 1}),
        ("request_malformed", SqlType.STRING, "false", {}),
    ],
)
def test_the_types_that_are_asked_for_come_before_the_formats_own(
    column: str, kind: SqlType, value: object, mistyped: dict[str, int]
) -> None:
    parsed = parse_chunk(COMBINED, LINE.format("p").encode(), {column: kind})
    assert parsed.events[column].to_list() == [value] and parsed.events.schema[column] == kind.dtype
    assert parsed.oddities.mistyped == mistyped


def test_columns_that_are_not_there_are_null() -> None:
    row = parse_chunk(COMBINED, LINE.format("").encode(), {"nothing": SqlType.STRING, "bytes": SqlType.BIGINT})
    assert row.events.select("nothing", "bytes").rows() == [(None, 7)]


def test_a_literal_skips_lines() -> None:
    chunk = "".join(LINE.format(name) for name in ("a", "b", r"\"a\"")).encode()
    parsed = parse_chunk(COMBINED, chunk, {"path": SqlType.STRING}, [["/a"]])
    assert parsed.events["path"].to_list() == ["/a"]
    assert parsed.counters == Counters(read=3, parsed=1, filtered=2)


def test_invalid_utf8_is_replaced_and_counted() -> None:
    parsed = parse_chunk(COMBINED, LINE.format("\udcff").encode(errors="surrogateescape"), {"path": SqlType.STRING})
    assert parsed.events["path"].to_list() == ["/\ufffd"]
    assert parsed.oddities.bad_encoding == 1


def test_lines_are_taken_apart_some_at_a_time() -> None:
    chunk = "".join(LINE.format("x" * (number % 40)) for number in range(200)).encode() + b"nonsense\n"
    with patch.object(layout_lines, "BLOCK_BYTES", 1_000):
        parsed = parse_chunk(COMBINED, chunk, {"path": SqlType.STRING})
    assert parsed.events["path"].str.len_bytes().to_list() == [1 + number % 40 for number in range(200)]
    assert parsed.counters == Counters(read=201, parsed=200, rejected=1)


def test_a_huge_line_is_rejected() -> None:
    good = LINE.format("").encode()
    parsed = parse_chunk(COMBINED, good + good[:50] + b"x" * LINE_BYTES_MAX + b"\n" + good, COMBINED.columns or {})
    assert parsed.counters == Counters(read=3, parsed=2, rejected=1)
    assert parsed.rejects[0][1] == "line_too_long" and parsed.oddities.truncated == 1


def test_a_rejected_line_says_where_it_stops_to_fit() -> None:
    line = LINE.format("").replace(" 200 ", " 0.2 ").rstrip()
    parsed = parsed_lines(COMBINED, line)
    assert [reason for _, reason in parsed.rejects] == [f"format:status@{line.index('0.2')}"]
    good = LINE.format("").rstrip()
    others = parsed_lines(COMBINED, "", good.replace("] ", "]-"), good + " more")
    assert [reason for _, reason in others.rejects] == [
        "format:remote_addr@0",
        f"format:between_fields@{good.index(']')}",
        f"format:behind_all_fields@{len(good)}",
    ]


def test_as_many_rejected_lines_are_kept_as_there_is_room_for_in_their_order() -> None:
    lines = [f"{number} nonsense" for number in range(2 * REJECTS_MAX)]
    lines[1] = "2026/03/29 02:30:00 [error] 1#1: clocks were put forward over it"
    parsed = parsed_lines(made("nginx-error", "Europe/Berlin"), *lines)
    assert [line.decode() for line, _ in parsed.rejects] == lines[:REJECTS_MAX]
    assert [reason for _, reason in parsed.rejects][:3] == ["format:ts@0", "time", "format:ts@0"]
    assert parsed.counters == Counters(read=len(lines), rejected=len(lines))


def test_values_beyond_their_types_are_null_and_counted() -> None:
    parsed = parsed_lines(COMBINED, LINE.format("").replace(" 7 ", " 18446744073709551615 ").rstrip())
    assert parsed.events["bytes"].to_list() == [None] and parsed.oddities.mistyped == {"bytes": 1}


def test_a_year_that_lines_do_not_say_is_the_newest_that_is_not_ahead() -> None:
    format = made("syslog")
    lines = ["Nov 27 08:59:59 web1 app: a", "Nov 27 09:00:01 web1 app: b", "Feb 29 00:00:00 web1 app: c"]
    assert [str(at)[:10] for at in parsed_lines(format, *lines).events["ts"]] == [
        "2026-11-27",
        "2025-11-27",
        "2024-02-29",
    ]


def test_local_times_need_a_zone_and_say_when_they_are_ambiguous() -> None:
    line = "2026/{} [error] 1#1: x"
    berlin = made("nginx-error", "Europe/Berlin")
    parsed = parsed_lines(berlin, *(line.format(day) for day in ("07/01 12:00:00", "10/25 02:30:00", "03/29 02:30:00")))
    assert [str(at) for at in parsed.events["ts"]] == ["2026-07-01 10:00:00", "2026-10-25 00:30:00"]
    assert parsed.oddities.time_ambiguous == 1
    assert [reason for _, reason in parsed.rejects] == ["time"], "clocks were put forward over it"


NGINX = """log_format main '$remote_addr - $remote_user [$time_local] "$request" '
                      '$status $body_bytes_sent "$http_referer" '
                      '"$http_user_agent" "$http_x_forwarded_for" rt=$request_time';"""
NGINX_LINE = (
    '1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 5 "-" "curl" "10.0.0.1, 10.0.0.2" rt=0.250'
)


def test_a_pasted_nginx_directive() -> None:
    log = make_format(NGINX)
    assert log.columns is not None and log.columns["request_time"] is SqlType.DOUBLE
    row = parsed_lines(log, NGINX_LINE).events.row(0, named=True)
    assert (row["http_x_forwarded_for"], row["request_time"]) == ("10.0.0.1, 10.0.0.2", 0.25)
    assert (row["method"], row["path"], row["query"]) == ("GET", "/a", "b")


def test_the_text_alone_and_braces() -> None:
    text = "${remote_addr} [$time_iso8601] $request_uri $status"
    log = make_format(text)
    assert log.columns == make_format(f"'{text}'").columns
    row = parsed_lines(log, "::1 [2026-11-20T10:00:00+01:00] /p?q=1 404").events.row(0, named=True)
    assert str(row["ts"]) == "2026-11-20 09:00:00"
    assert (row["uri"], row["path"], row["query"], row["status"]) == ("/p?q=1", "/p", "q=1", 404)


def test_epoch_time_of_nginx() -> None:
    assert str(parsed_lines(make_format("$msec $status"), "1763632800.123 200").events["ts"][0]) == (
        "2025-11-20 10:00:00.123000"
    )


@pytest.mark.parametrize(
    ("text", "line", "at"),
    [
        ("%{%Y-%m-%dT%H:%M:%S}t.%{msec_frac}t %h", "2026-11-26T09:00:00.042 192.0.2.1", "2026-11-26 09:00:00.042000"),
        ("[%{%d/%b/%Y %T}t.%{usec_frac}t %{%z}t] %h", "[26/Nov/2026 09:00:00.000001 +0100] ::1", "2026-11-26 08:00:00"),
        ("%{sec}t %h", "1795683600 192.0.2.1", "2026-11-26 09:00:00"),
        ("%{msec}t %h", "1795683600042 192.0.2.1", "2026-11-26 09:00:00.042000"),
    ],
)
def test_times_of_apache_as_strftime_writes_them(text: str, line: str, at: str) -> None:
    assert str(parsed_lines(made(text), line).events["ts"][0]) == at


@pytest.mark.parametrize(
    "text",
    [
        r'%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i"',
        r'LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\"" combined',
        r"%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\"",
    ],
)
def test_apache_ways_to_write_combined(text: str) -> None:
    assert make_format(text).columns == COMBINED.columns


def test_apache_directives() -> None:
    log = make_format("%v:%p %a %t %D %I %O %{X-Id}i %{Set-Cookie}o %{ms}T %% %m %U%q %H %{remote}p %Z")
    assert list(log.columns or ()) == [
        "server_name",
        "server_port",
        "remote_addr",
        "request_time_us",
        "bytes_received",
        "bytes_sent",
        "http_x_id",
        "sent_http_set_cookie",
        "request_time_ms",
        "method",
        "path",
        "query",
        "protocol",
        "remote_port",
        "percent_Z",
    ]


def test_haproxys_log_format() -> None:
    text = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r"
    entry = layouts()["haproxy"]["samples"]
    parsed = parsed_lines(made(text), *(sample["line"] for sample in entry))
    assert all(is_as(row, sample["expect"]) for row, sample in zip(rows(parsed), entry, strict=True))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("combind", "did you mean 'combined'"),
        ("$remote_addr $status", "no time of the event"),
        ("$time_local$status", "nothing tells where 'ts' ends and 'status' begins"),
        ("%{%E}t %h", "%E of the time's format is not read"),
        ("log_format a '$msec'; log_format b '$time_local';", r"several log_formats \(a, b\)"),
        ("log_format a escape=jsn '$msec';", "escape=default, json or none"),
        ('LogFormat "%t" a\nLogFormat "%t %h" b', "several LogFormats"),
        ("CustomLog logs/a.log combined", "give the LogFormat with the nickname 'combined'"),
        ("{ts:time:clf} {a:wrod}", "there is no kind 'wrod' of fields; did you mean 'word'"),
        ("{ts:time:clff} {a:word}", "there is no time notation 'clff'"),
        ("{a:rest} {ts:time:clf}", "takes the rest of the line"),
        ("%{%H:%M:%S}t %h", "does not say both day and hour"),
        ("%{%d/%b}t %h", "does not say both day and hour"),
    ],
)
def test_what_is_no_format_says_what_would_be(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make_format(text)


def test_the_documents_name_every_format_kind_and_notation() -> None:
    text = (pathlib.Path(__file__).parents[3] / "docs" / "FORMATS.md").read_text()
    named = set(re.findall(r"`([\w-]+)`", text))
    assert {*LAYOUTS, *HEADED, *PAIRS, *WRAPPERS, *OBJECT_WRAPPERS, *KINDS, *NOTATIONS} - {"stream", "part"} <= named


IMITATED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" '
    '$request_count "$router" "$server" ${took}ms'
)
IMITATED_LINE = '192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET /{} HTTP/2.0" 200 2 {} {} 7 {} {} 3ms'


@pytest.mark.parametrize("referer", ['"-"', "-", '"a"'])
@pytest.mark.parametrize("agent", ['"-"', '"curl"', '"foo " bar"', '"a" 6 "b" "c" 1ms"', '"\\""'])
@pytest.mark.parametrize("server", ['"-"', "-", '"http://a -> b"'])
def test_a_pasted_layout_reads_who_imitates_a_server(referer: str, agent: str, server: str) -> None:
    """Others write a hyphen without quotes, and escape nothing that clients send."""
    (row,) = rows(parsed_lines(make_format(IMITATED), IMITATED_LINE.format("a", referer, agent, '"r"', server)))
    texts = {name: None if text.strip('"') == "-" else text[1:-1] for name, text in (("referer", referer),)}
    assert row["referer"] == texts["referer"] and row["user_agent"] == (None if agent == '"-"' else agent[1:-1])
    assert row["server"] == (None if server.strip('"') == "-" else server[1:-1])
    assert (row["request_count"], row["router"], row["took"]) == ("7", "r", "3")


@pytest.mark.parametrize("format", [IMITATED, "traefik"])
def test_lines_that_are_glued_are_not_one_with_a_long_agent(format: str) -> None:
    line = IMITATED_LINE.format("{}", '"-"', '"cu"rl"', '"r"', '"s"')
    whole, other = line.format("a"), line.format("b")
    for glued in (whole + other, whole[:-20] + other, whole[: whole.index("rl")] + other):
        assert parsed_lines(make_format(format), glued).counters == Counters(read=1, rejected=1), glued
    assert parsed_lines(make_format(format), whole).counters.parsed == 1


def test_a_hyphen_without_quotes_is_one_only_where_all_of_the_text_is_missing() -> None:
    for text in ("-x", '-"', "x", ""):
        parsed = parsed_lines(make_format(IMITATED), IMITATED_LINE.format("a", text, '"c"', '"r"', '"s"'))
        assert parsed.counters.rejected == 1, text


@pytest.mark.parametrize(
    ("user", "is_one"),
    [(r"\"x\"", True), (r"a\\", True), (r"DOM\bob", True), (r"a\\\"b", True), (r'a\\"b', False), ('a"b', False)],
)
def test_who_has_a_quote_in_the_name_of_a_user_hides_no_line(user: str, is_one: bool) -> None:
    """Apache writes a backslash before it."""
    parsed = parsed_lines(COMBINED, LINE.format("").replace(" - - ", f" - {user} ").rstrip())
    assert parsed.events["remote_user"].to_list() == [user] * is_one and parsed.counters.rejected == (not is_one)


def test_of_a_request_that_was_redirected_within_the_server_both_are_columns() -> None:
    """`%s` is of the request as it came, `%>s` of that which answered; alone, each is the status."""
    at = "[20/Nov/2026:10:00:00 +0000]"
    (row,) = rows(parsed_lines(make_format("%t %s %>s %<u %u"), f"{at} 301 200 - bob"))
    wanted = {"original_status": 301, "status": 200, "original_remote_user": None, "remote_user": "bob"}
    assert {name: row[name] for name in wanted} == wanted
    for text in ("%t %s", "%t %>s", "%t %<s"):
        assert parsed_lines(make_format(text), f"{at} 301").events["status"].to_list() == [301]


@pytest.mark.parametrize(("text", "wrong"), [("%h %t 100%", "%"), ("%t %{X}^zz", "%{X}^zz"), ("%t %(h)s", "%(h)s")])
def test_what_is_no_directive_of_apache_is_no_literal(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{wrong} in the log format is not read")):
        make_format(text)


def test_names_behind_a_caret_are_directives() -> None:
    (row,) = rows(parsed_lines(make_format("%t %{X}^ti %{X}^to %^FB 5%%"), "[20/Nov/2026:10:00:00 +0000] a b 7 5%"))
    assert (row["trailer_x"], row["sent_trailer_x"], row["time_first_byte_us"]) == ("a", "b", 7)


def test_an_error_of_apache_with_a_module_is_no_level() -> None:
    line = "[Thu Nov 26 09:00:00 2026] {} x"
    heads = ("[core:error] [pid 1:tid 2] [client ::1:5]", "[core:error] [pid 1:tid 0x2]", "[error] [client ::1]")
    parsed = parsed_lines(made("apache-error"), *map(line.format, heads))
    assert [(row["module"], row["level"]) for row in rows(parsed)] == [("core", "error"), (None, "error")]
    assert parsed.counters.rejected == 1


@pytest.mark.parametrize("texts", ["- -", '"-" -', '- "-"', '"-" "-"'])
def test_older_releases_of_traefik_write_hyphens_without_quotes(texts: str) -> None:
    line = f'192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET /a HTTP/1.1" 499 0 {texts} 7 - - 3ms'
    (row,) = rows(parsed_lines(make_format("traefik"), line))
    assert (row["status"], row["referer"], row["user_agent"], row["request_count"]) == (499, None, None, 7)
    assert (row["router"], row["request_time"]) == (None, 0.003)


@pytest.mark.parametrize("between", ["\t", "|", "|ua=", "\tua:"])
@pytest.mark.parametrize("is_last", [True, False])
def test_values_between_tabs_or_bars_may_have_spaces(between: str, is_last: bool) -> None:
    first, ua, last = "$time_iso8601", "$http_user_agent", between.join(("", "$status"))
    text = f"{first}{between}{ua}{'' if is_last else last}"
    line = f"2026-11-26T09:00:00Z{between}Mozilla/5.0 (X11; a) b{'' if is_last else between + '200'}"
    (row,) = rows(parsed_lines(make_format(text), line))
    assert row["user_agent"] == "Mozilla/5.0 (X11; a) b"
    assert parsed_lines(make_format(text), line + between + "more").counters.rejected == 1, "one more value"


@pytest.mark.parametrize("name", ["*.a.example", ".a.example", "www.*", r"~^(www\.)?a$", "_", "a.example"])
def test_servers_of_nginx_may_have_names_of_many_hosts(name: str) -> None:
    line = f"{name} [26/Nov/2026:09:00:00 +0000] 200"
    (row,) = rows(parsed_lines(make_format("$server_name [$time_local] $status"), line))
    assert row["server_name"] == name
