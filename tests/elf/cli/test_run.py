"""The command run: a job once over files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from elf.cli.app import app

QUERY = "SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '60 seconds') ORDER BY n DESC"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "120"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [{"ts": "2026-11-20T12:00:00Z", "product": p} for p in ("tetris", "tetris", "\x1b[2Jzelda")]
    (tmp_path / "a.log").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "Top Products.sql").write_text(QUERY)
    return tmp_path


def test_run_prints_rows_and_accounts_for_lines(folder: Path) -> None:
    result = run("run", "--once", "--input", folder / "*.log", folder / "Top Products.sql")
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    bounds = {"window_start": "2026-11-20T12:00:00Z", "window_end": "2026-11-20T12:01:00Z"}
    assert rows == [bounds | {"product": "tetris", "n": 2}, bounds | {"product": "\x1b[2Jzelda", "n": 1}]
    said = "read as json: 2 of 2 lines\n3 lines of 1 file: 3 parsed, 0 skipped, 0 rejected\n"
    assert result.stderr == said


def test_run_says_which_values_are_null_because_they_do_not_fit(folder: Path) -> None:
    lines = [{"ts": "2026-11-20T12:00:00Z", "n": 1, "m": 1}] * 10_000
    lines += [{"ts": "2026-11-20T12:00:00Z", "n": n, "m": 2.5} for n in ("n/a", 2.5)]
    (folder / "b.ndjson").write_text("\n".join(map(json.dumps, lines)))
    (folder / "job.sql").write_text("SELECT sum(n) AS n FROM clicks")
    result = run("run", "--input", folder / "b.ndjson", folder / "job.sql")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"n": 10_000})
    assert result.stderr.endswith("\n2 values of n do not fit BIGINT and are null\n"), "m is not read"
    (folder / "job.sql").write_text("SELECT sum(n) AS n, sum(m) AS m FROM clicks")
    result = run("run", "--columns", "n DOUBLE", "--input", folder / "b.ndjson", folder / "job.sql")
    said = "2 values of m do not fit BIGINT and are null\n1 value of n does not fit DOUBLE and is null\n"
    assert result.stderr.endswith(said) and json.loads(result.stdout)["n"] == 10_002.5


def test_run_tells_infinity_from_null(folder: Path) -> None:
    (folder / "job.sql").write_text("SELECT exp(1000.0D * count(*)) AS x, max(CAST(NULL AS DOUBLE)) AS y FROM clicks")
    result = run("run", "--input", folder / "*.log", folder / "job.sql")
    assert json.loads(result.stdout) == {"x": "Infinity", "y": None}


def test_run_of_a_job_that_fails_on_every_event_has_no_result(folder: Path) -> None:
    (folder / "section.py").write_text("def section(path):\n    return 1 / 0\n")
    query = "SELECT section(product) AS s, count(*) AS n FROM clicks GROUP BY section(product)"
    function = '[functions.section]\nargs = ["STRING"]\nreturns = "STRING"\nfile = "section.py"\n'
    job = folder / "job.toml"
    job.write_text(f'name = "sections"\nquery = "{query}"\n{function}')
    result = run("run", "--input", folder / "*.log", job)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "3 events left out" in result.stderr
    for source, said in (
        ("def section(path)\n", "6:1: the source of section is not Python: line 1: expected ':'"),
        ("def sections(path):\n    return path\n", "6:1: the source of section defines no function section"),
    ):
        (folder / "section.py").write_text(source)
        for command in (["run", "--input", folder / "*.log"], ["validate"]):
            result = run(*command, job)
            assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("filter", ["product = 'needle'", "concat(product, '') = 'needle'"])
def test_a_line_that_is_rejected_is_not_all_of_them_where_the_filter_rules_out_the_others(
    folder: Path, filter: str
) -> None:
    (folder / "b.log").write_text('{"ts": 1790000000, "product": "hay"}\n' * 50 + "no JSON, but a needle\n")
    (folder / "job.sql").write_text(f"SELECT product, count(*) AS n FROM clicks WHERE {filter} GROUP BY product")
    result = run("run", "--input", folder / "b.log", "--columns", "product STRING", folder / "job.sql")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert "1 rejected" in result.stderr and "these lines are no JSON objects" not in result.stderr


def test_run_of_lines_that_are_all_rejected_or_would_be_has_no_result(folder: Path) -> None:
    (folder / "b.log").write_text("hay\nneedle\n" * 50)
    (folder / "job.sql").write_text("SELECT product FROM clicks WHERE product = 'needle' GROUP BY product")
    options = ("--input", folder / "b.log", "--columns", "product STRING")
    result = run("run", *options, "--format", "json", folder / "job.sql")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "0 parsed, 50 skipped" in result.stderr and "50 rejected" in result.stderr
    assert "these lines are no JSON objects" in result.stderr
    result = run("run", *options, folder / "job.sql")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "its lines are of no format that has a name" in result.stderr and "`elf sample " in result.stderr


def test_what_lines_are_is_said_if_nobody_did(folder: Path) -> None:
    (folder / "b.log").write_text('192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "-"\n' * 9)
    (folder / "job.sql").write_text("SELECT path, count(*) AS n FROM logs GROUP BY path")
    result = run("run", "--input", folder / "b.log", folder / "job.sql")
    assert json.loads(result.stdout) == {"path": "/a", "n": 9}
    assert result.stderr.startswith("read as combined: 9 of 9 lines\n")


def test_files_of_a_glob_that_are_no_logs_are_named(folder: Path) -> None:
    (folder / "b.log").write_bytes(b"\x7fELF and more\n" * 9)
    (folder / "c.log").write_bytes(b"PK\x03\x04 and more")
    result = run("run", "--input", folder / "*.log", folder / "Top Products.sql")
    assert result.exit_code == 1 and len(result.stdout.splitlines()) == 2
    assert "12 lines of 2 files: 3 parsed, 0 skipped, 9 rejected" in result.stderr
    assert f"{folder}/b.log: no line is an event: these lines are no JSON objects" in result.stderr
    assert f"{folder}/c.log: left out: a zip archive" in result.stderr and f"{folder}/a.log" not in result.stderr
    (folder / "d.log").write_bytes(gzip.compress(b"cut short")[:-9])
    result = run("run", "--input", folder / "*.log", folder / "Top Products.sql")
    assert (result.exit_code, result.stdout) == (1, "") and f"{folder}/d.log: the gzip data end in" in result.stderr


def test_names_of_one_file_are_counted(folder: Path) -> None:
    (folder / "current.log").symlink_to("a.log")
    result = run("run", "--input", folder / "*.log", folder / "Top Products.sql")
    assert result.stderr.endswith("\n3 lines of 1 file with 2 names: 3 parsed, 0 skipped, 0 rejected\n")


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "<(...)"])
def test_lines_come_through_a_pipe(folder: Path, name: str) -> None:
    elf = [sys.executable, "-m", "elf", "run", "--json", "--input"]
    data, job = (folder / "a.log").read_bytes(), str(folder / "Top Products.sql")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        assert cat.stdin is not None and cat.stdout is not None
        cat.stdin.write(data)
        cat.stdin.close()
        through = name if name != "<(...)" else f"/dev/fd/{cat.stdout.fileno()}"
        handed = [] if name != "<(...)" else [cat.stdout.fileno()]
        done = subprocess.run([*elf, through, job], stdin=cat.stdout, pass_fds=handed, capture_output=True, check=True)
    assert [json.loads(line)["n"] for line in done.stdout.splitlines()] == [2, 1]
    assert b"3 lines of 1 file: 3 parsed" in done.stderr


def test_run_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.cli.run.wants_json", lambda asked: asked)
    shown = run("run", "--input", folder / "*.log", folder / "Top Products.sql").stdout
    assert r"\x1b[2Jzelda" in shown
    assert "window_end" in shown


@pytest.mark.parametrize(
    ("query", "arguments", "code", "said"),
    [
        ("SELECT prodct, count(*) AS n\nFROM clicks GROUP BY prodct", [], 2, ":1:8: the lines have no column 'prodct'"),
        ("SELECT count(*) AS n\nFORM clicks", [], 2, ":2:"),
        (QUERY, ["--input", "/no/such"], 2, "no file matches '/no/such'"),
        (QUERY, ["--format", "combind"], 2, "did you mean 'combined'"),
        (QUERY, ["--columns", "product TXT"], 2, "unknown column type"),
    ],
)
def test_run_explains_mistakes(folder: Path, query: str, arguments: list[str], code: int, said: str) -> None:
    file = folder / "job.sql"
    file.write_text(query)
    result = run("run", "--once", "--input", folder / "a.log", *arguments, file)
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert result.stdout == ""


def test_help_says_that_nothing_is_redacted(tmp_path: Path) -> None:
    assert "nothing is redacted as a source's privacy has it" in " ".join(run("run", "--help").stdout.split())
    (tmp_path / "job.sql").write_text("SELECT path, count(*) AS n FROM log GROUP BY path")
    (tmp_path / "a.log").write_text('{"ts": 1795589180000, "path": "/a?token=abc"}\n')
    assert "token=abc" in run("run", "--input", tmp_path / "a.log", tmp_path / "job.sql").stdout


def test_a_mistake_beside_a_function_in_a_file_is_told_and_not_its_lack_of_a_signature(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        'name = "a"\nquery = "SELECT f(path) AS p, sum(nope) AS n FROM log GROUP BY f(path)"\n'
        '[functions.f]\nargs = ["STRING"]\nreturns = "STRING"\nfile = "f.py"\n'
    )
    (tmp_path / "f.py").write_text("def f(path):\n    return path\n")
    (tmp_path / "a.log").write_text('{"ts": 1795589180000, "path": "/a"}\n')
    result = run("run", "--input", tmp_path / "a.log", job)
    assert result.exit_code == 2 and "nope" in result.stderr and "not signed" not in result.stderr


def test_a_query_may_be_the_argument_itself_or_come_through_a_pipe(folder: Path) -> None:
    query = "SELECT product, count(*) AS n FROM clicks GROUP BY product" + " " * 300
    direct = run("run", "--input", folder / "a.log", query)
    assert direct.exit_code == 0 and len(direct.stdout.splitlines()) == 2
    piped = CliRunner().invoke(app, ["run", "--input", str(folder / "a.log"), "-"], input=query)
    assert (piped.exit_code, piped.stdout) == (0, direct.stdout)
    empty = CliRunner().invoke(app, ["run", "--input", str(folder / "a.log"), "-"], input="")
    assert empty.exit_code == 2 and "No such file" not in empty.stderr
    wrong = run("run", "--input", folder / "a.log", "SELECT prodct FROM clicks GROUP BY prodct")
    assert wrong.exit_code == 2 and "query.sql:1:8: the lines have no column 'prodct'" in wrong.stderr


def test_lines_of_which_some_are_objects_are_none_of_json(folder: Path) -> None:
    times = [f"2026-11-26T09:00:0{second}Z" for second in range(3)]
    (folder / "b.log").write_text("".join(f'{{"ts":"{at}","n":1}}\nts={at} n=1\n' for at in times))
    result = run("run", "--input", folder / "b.log", "SELECT sum(n) AS n FROM logs")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the nearest is" in result.stderr and "which 3 of 6 lines fit" in result.stderr
    assert "say what they are with --format, such as logfmt" in result.stderr


def test_who_has_no_question_yet_is_told_what_is_asked_for_most(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    line = '10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET {} HTTP/1.1" {} 5 "-" "curl/8.1"\n'
    log.write_text(line.format("/a", 200) * 3 + line.format("/b", 503))
    command = [sys.executable, "-m", "elf", "run", "--input"]
    for given, piped in ((str(log), ""), ("-", log.read_text())):
        asked = subprocess.run([*command, given], input=piped, capture_output=True, text=True, check=True)
        assert [json.loads(row) for row in asked.stdout.splitlines()] == [
            {"path": "/a", "hits": 3, "errors": 0, "bytes": 15},
            {"path": "/b", "hits": 1, "errors": 1, "bytes": 5},
        ]
        assert "asked: SELECT path, count(*) AS hits" in asked.stderr


def test_objects_are_counted_by_a_text_that_they_have(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text('{"ts":"2026-01-01T00:00:00Z","url":"/a","status":"ok","path":7}\n' * 2)
    asked = CliRunner().invoke(app, ["run", "--input", str(log)])
    assert (asked.exit_code, json.loads(asked.stdout)) == (0, {"url": "/a", "hits": 2})
    log.write_text('{"ts":"2026-01-01T00:00:00Z","n":1}\n' * 2)
    assert json.loads(CliRunner().invoke(app, ["run", "--input", str(log)]).stdout) == {"hits": 2}
