"""What nginx's configuration says of access logs, and what a hostile one is answered."""

from __future__ import annotations

import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.installation.access_logs import FoundLogs
from elf.installation.config_files import ConfigFiles
from elf.installation.nginx import directives, find_logs

MAIN = """$remote_addr [$time_local] "$request" $status rt=$request_time"""


def found(folder: pathlib.Path, text: str, **others: str) -> FoundLogs:
    main = folder / "nginx.conf"
    main.write_text(text)
    for name, content in others.items():
        (folder / "sites" / name).parent.mkdir(exist_ok=True)
        (folder / "sites" / name).write_text(content)
    return find_logs(str(main), ConfigFiles(), default=str(folder / "default.log"))


def test_formats_includes_and_places(tmp_path: pathlib.Path) -> None:
    logs = found(
        tmp_path,
        "events {}\nhttp {\n  log_format main '$remote_addr [$time_local] '\n"
        "    '\"$request\" $status '  rt=$request_time;\n"
        "  access_log /l/access.log main buffer=32k flush=5m if=$loggable;\n  include sites/*;\n}",
        b="server { access_log /l/b.log; location / { access_log off; } }",
        a="# access_log /l/no.log;\nserver {\n  access_log '/l/with blank.log' main; }",
    ).logs
    assert [(log.path, log.format) for log in logs] == [
        ("/l/access.log", MAIN),
        ("/l/with blank.log", MAIN),
        ("/l/b.log", "combined"),
    ]
    assert str(logs[0].place).endswith("nginx.conf:5") and str(logs[1].place).endswith("sites/a:3")


def test_objects_have_their_time(tmp_path: pathlib.Path) -> None:
    text = """http { log_format a escape=json '{"at":"$time_iso8601","s":$status}'; access_log /a a;
        log_format b '{"s":$status, "when" : $msec}'; access_log /b b;
        log_format c escape=none '$request [$time_local]';
        access_log /c c; access_log /d unknown; }"""
    assert [(log.format, log.time) for log in found(tmp_path, text).logs] == [
        ("json", "at"),
        ("json", "when"),
        ("log_format c escape=none '$request [$time_local]'", ""),
        ("", ""),
    ]


@pytest.mark.parametrize(
    ("directive", "path"),
    [
        ("access_log /l/$host.access.log;", "/l/*.access.log"),
        ("access_log /l/${host}$server_port-[x].log;", "/l/*-[[]x].log"),
        ("set $site shop; access_log /l/$site.log;", "/l/shop.log"),
        ("set $site shop; set $site b; set $site shop; access_log /l/$site.log;", "/l/*.log"),
        ("access_log logs/a.log;", None),
    ],
)
def test_paths(tmp_path: pathlib.Path, directive: str, path: str | None) -> None:
    (log,) = found(tmp_path, f"http {{ {directive} }}").logs
    assert log.path == (path or str(tmp_path.parent / "logs/a.log"))


@pytest.mark.parametrize(
    ("directive", "why"),
    [
        ("access_log syslog:server=10.0.0.1 main;", "goes to syslog"),
        ("access_log /dev/stdout;", "is no file that can be followed"),
        ("access_log /l/a.log combined gzip=4;", "is written compressed"),
        ("error_log /l/error.log; access_log /l/$host.log;", "matches /l/error.log, too"),
        ("access_log '/l/a\\nb.log';", "no text that can be written"),
    ],
)
def test_logs_that_cannot_be_followed_are_said_to_be(tmp_path: pathlib.Path, directive: str, why: str) -> None:
    logs = found(tmp_path, f"http {{ {directive} }}")
    assert not logs.logs and why in logs.left_out[0]


def test_the_default_is_found_where_nothing_is_said(tmp_path: pathlib.Path) -> None:
    assert not found(tmp_path, "http { server { } }").logs
    (tmp_path / "default.log").touch()
    assert [log.format for log in found(tmp_path, "http { server { } }").logs] == ["combined"]
    assert not found(tmp_path, "http { access_log off; }").logs


def test_lua_is_passed_over(tmp_path: pathlib.Path) -> None:
    lua = """content_by_lua_block { if x then return "}" end -- }
        local t = { [[ } ]], 'it}' } } access_log /l/a.log;"""
    assert [log.path for log in found(tmp_path, f"http {{ {lua} }}").logs] == ["/l/a.log"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http {", "it ends within a block"),
        ("}", "a } that nothing opens"),
        ('access_log "/l', "a quote that does not end"),
        ("access_log /l", "it ends within a block or a directive"),
        ("include nginx.conf;", "a file includes itself"),
        ("include nginx.conf; include nginx.conf;", "a file includes itself"),
        ("include sites/pipe;", "is no file"),
        ("include sites;", "is no file"),
        ("include sites/zeros;", "is no text"),
        ("include sites/large;", "is too large"),
    ],
)
def test_hostile_files_are_refused_in_one_sentence(tmp_path: pathlib.Path, text: str, why: str) -> None:
    (tmp_path / "sites").mkdir()
    os.mkfifo(tmp_path / "sites" / "pipe")
    (tmp_path / "sites" / "zeros").write_bytes(b"http {\0}")
    (tmp_path / "sites" / "large").write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match=why) as caught:
        found(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_bomb_of_includes_ends_soon(tmp_path: pathlib.Path) -> None:
    """Each file includes the next one many times: as many as two to the sixteenth."""
    for depth in range(12):
        (tmp_path / f"{depth}").write_text(f"include {depth + 1};" * 4)
    (tmp_path / "12").write_text("")
    with pytest.raises(ConfigError, match="one of more than 10000 files"):
        find_logs(str(tmp_path / "0"), ConfigFiles())


def test_files_that_may_not_be_read_are_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nginx.conf").write_text("include gone; access_log /l/a.log;")
    files = ConfigFiles()
    assert len(find_logs(str(tmp_path / "nginx.conf"), files).logs) == 1
    assert files.unread == [f"{tmp_path}/gone: No such file or directory"]


@given(st.text(st.sampled_from("abc $\"'\\;{}#\n"), max_size=60) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert all(each.words for each in directives(text, "f"))
    except ConfigError as error:
        assert "\n" not in str(error)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\\"), max_size=20), min_size=1, max_size=5))
def test_words_in_quotes_are_what_they_were(words: list[str]) -> None:
    quoted = " ".join('"' + word.replace('"', '\\"') + '"' for word in words)
    (directive,) = directives(f"{quoted};", "f")
    assert directive.words == tuple(words)
