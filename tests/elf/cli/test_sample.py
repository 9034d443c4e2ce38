from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.elf.cli.test_run import run

LINE = '192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl"\n'


def test_a_line_is_taken_apart_and_others_are_shown_where_they_stop(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(LINE * 12 + LINE.replace(" 200 ", " 0.2 "))
    result = run("sample", log)
    assert result.exit_code == 0
    fields = {row["column"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert fields["status"] == {"bytes": "61-64", "column": "status", "kind": "status", "value": "200"}
    assert list(fields) == ["remote_addr", "ts", "request", "status", "bytes", "user_agent"]
    assert "read as combined: 12 of 13 lines" in result.stderr
    assert "line 13 stops at byte 61, status (status): three digits or -, not '0.2 5" in result.stderr
    assert f'[sources.NAME]\npath = "{log}"\nformat = "combined"' in result.stderr


def test_the_settings_are_toml_whatever_the_layout_has(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("26/Nov/2026:09:00:00 +0000 'a' \"b\"\n")
    layout = """{ts:time:clf} '{a:word}' "{b:quoted}\""""
    settings = run("sample", log, "--format", layout).stderr.partition("to follow it:\n")[2]
    assert tomllib.loads(settings)["sources"]["NAME"] == {"path": str(log), "format": layout}


def test_objects_show_their_fields(tmp_path: Path) -> None:
    log = tmp_path / "a.json"
    log.write_text('{"time":"2026-11-26T09:00:00Z","a":[1]}\n')
    result = run("sample", log)
    assert [json.loads(row) for row in result.stdout.splitlines()] == [
        {"column": "time", "value": '"2026-11-26T09:00:00Z"'},
        {"column": "a", "value": "[1]"},
    ]
    assert 'format = "json"\ntime = "time"' in result.stderr


def test_what_is_nothing_known_is_said_with_where_it_stops(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("nonsense\n")
    result = run("sample", log)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "of no format that has a name" in result.stderr
    assert run("sample", log, "--format", "combined").exit_code == 1


CADDY = '{"ts":1795683600.5,"request":{"method":"GET","uri":"/a?b","headers":{"X":["y"]}},"status":200,"user_id":""}\n'


def test_objects_show_paths_into_them(tmp_path: Path) -> None:
    log = tmp_path / "a.json"
    log.write_text(CADDY)
    result = run("sample", log, "--format", "json")
    columns = [json.loads(row)["column"] for row in result.stdout.splitlines()]
    assert columns == ["ts", "request.method", "request.uri", "request.headers.X", "status", "user_id"]


def test_objects_of_a_format_with_a_name_show_its_columns(tmp_path: Path) -> None:
    log = tmp_path / "a.json"
    log.write_text(CADDY)
    result = run("sample", log)
    fields = {row["column"]: row["value"] for row in map(json.loads, result.stdout.splitlines())}
    assert (fields["uri"], fields["path"], fields["status"], fields["remote_user"]) == ('"/a?b"', '"/a"', "200", "null")
    assert "read as caddy: 1 of 1 lines" in result.stderr and 'format = "caddy"' in result.stderr
