from __future__ import annotations

import pytest

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.log_format import COMBINED, Field, parse_layout

NGINX = """log_format main '$remote_addr - $remote_user [$time_local] "$request" '
                      '$status $body_bytes_sent "$http_referer" '
                      '"$http_user_agent" "$http_x_forwarded_for" rt=$request_time';"""
NGINX_LINE = (
    b'1.2.3.4 - - [20/Nov/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 5 "-" "curl" "10.0.0.1, 10.0.0.2" rt=0.250\n'
)


def columns(text: str) -> list[str]:
    return [token.column for token in parse_layout(text) if isinstance(token, Field) and token.column]


def test_a_pasted_nginx_directive() -> None:
    log = make_format(NGINX)
    assert log.columns is not None
    row = parse_chunk(log, NGINX_LINE, log.columns).events.row(0, named=True)
    assert row["http_x_forwarded_for"] == "10.0.0.1, 10.0.0.2"
    assert row["request_time"] == 0.25
    assert (row["method"], row["path"], row["query"]) == ("GET", "/a", "b")
    assert log.columns["request_time"] is SqlType.DOUBLE


def test_the_string_alone_and_braces() -> None:
    text = "${remote_addr} [$time_iso8601] $request_uri $status"
    assert columns(text) == columns(f"'{text}'") == ["remote_addr", "time_iso8601", "uri", "status"]
    log = make_format(text)
    assert log.columns is not None
    line = b"::1 [2026-11-20T10:00:00+01:00] /p?q=1 404\n"
    row = parse_chunk(log, line, log.columns).events.row(0, named=True)
    assert str(row["ts"]) == "2026-11-20 09:00:00"
    assert (row["uri"], row["path"], row["query"], row["status"]) == ("/p?q=1", "/p", "q=1", 404)


def test_epoch_time_of_nginx() -> None:
    log = make_format("$msec $status")
    assert str(parse_chunk(log, b"1763632800.123 200\n", {}).events["ts"][0]) == "2025-11-20 10:00:00.123000"


@pytest.mark.parametrize(
    "text",
    [
        COMBINED,
        r'LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\"" combined',
        r"%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\"",
    ],
)
def test_apache_ways_to_write_combined(text: str) -> None:
    expected = ["remote_addr", "remote_user", "time_local", "request", "status", "bytes", "referer", "user_agent"]
    assert columns(text) == expected


def test_apache_directives() -> None:
    assert columns("%v:%p %a %t %D %I %O %{X-Id}i %{Set-Cookie}o %{ms}T %% %m %U %q %H") == [
        "server_name",
        "server_port",
        "remote_addr",
        "time_local",
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
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("combind", "did you mean 'combined'"),
        ("$remote_addr $status", "no time of the event"),
        ("$time_local$status", "nothing separates"),
        ("%t %Z", "%Z"),
        ("%{%s}t", "use %t"),
        ("%t %h %a", "fills column 'remote_addr' twice"),
        ('log_format j escape=json \'{"a":"$msec"}\';', "format = 'json'"),
    ],
)
def test_what_is_no_format_says_what_would_be(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make_format(text)
