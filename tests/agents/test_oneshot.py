"""One shot over files equals an independent computation (DuckDB), however it is cut; every line is accounted for."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import tarfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents import oneshot
from elf.agents.errors import ConfigError, JobError, JobSpecError
from elf.agents.jobs.definition import Definition, load_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.agents.oneshot import evaluate, parse_columns
from elf.agents.sources.files.inputs import find_inputs
from elf.agents.sources.lines import LINE_BYTES_MAX
from elf.cbt import INTERVAL

TOP = """
SELECT product, count(*) AS clicks, sum(price) AS total
FROM clicks WHERE category = 'Video Games'
GROUP BY product, window(ts, '60 seconds', '30 seconds') ORDER BY clicks DESC, product LIMIT 3
"""


COLUMNS = parse_columns("product STRING, price INT, category STRING")


def job(query: str) -> Definition:
    return load_definition(query, filename="once.sql")


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    """300 events over six minutes, with a gap of two."""
    made = []
    for n in range(300):
        seconds = n % 120 if n % 2 else 240 + n % 120
        at = datetime.fromtimestamp(1_790_000_000 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        category = "Video Games" if n % 3 else "Books"
        made.append({"ts": at, "product": f"p{n * n % 7}", "price": n % 11, "category": category})
    return made


@pytest.fixture
def folder(tmp_path: Path, events: list[dict[str, Any]]) -> Path:
    lines = [json.dumps(event) for event in events]
    (tmp_path / "a.log").write_text("\n".join(lines[:100]))
    (tmp_path / "b.log").write_text("\n".join(lines[100:200]) + "\nnot json\n")
    (tmp_path / "c.log.gz").write_bytes(gzip.compress("\n".join(lines[200:]).encode()))
    (tmp_path / "all.ndjson").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.parametrize("chunk_bytes", [1, 300, 4 << 20])
def test_windows_equal_duckdb(folder: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(oneshot, "CHUNK_BYTES", chunk_bytes)
    outcome = evaluate(job(TOP), [str(folder / "*.log"), str(folder / "*.gz")], "json")
    with duckdb.connect() as database:
        expected = database.execute(f"""
            WITH e AS (SELECT epoch(ts::TIMESTAMP)::BIGINT AS s, * FROM read_json('{folder}/all.ndjson')),
            w AS (SELECT (s // 30 + i) * 30 AS w_end, * FROM e, (VALUES (1), (2)) v(i) WHERE category = 'Video Games'),
            g AS (SELECT w_end, product, count(*) AS clicks, sum(price)::BIGINT AS total FROM w GROUP BY ALL)
            SELECT w_end, product, clicks, total FROM g
            QUALIFY row_number() OVER (PARTITION BY w_end ORDER BY clicks DESC, product) <= 3
            ORDER BY w_end, clicks DESC, product
    """).fetchall()
    rows = outcome.frame.with_columns(pl.col("window_end").dt.epoch("s")).drop("window_start").rows()
    assert rows == expected
    assert len(expected) > 20
    assert outcome.counters.balanced
    # The literal 'Video Games' lets lines without it be skipped unparsed, the broken one among them.
    assert (outcome.counters.read, outcome.counters.filtered, len(outcome.inputs.files)) == (301, 101, 3)


def test_without_windows_there_is_one_result(folder: Path) -> None:
    query = "SELECT category, count(*) AS n FROM clicks GROUP BY category ORDER BY n DESC"
    outcome = evaluate(job(query), [str(folder / "?.log*")], "json")
    assert outcome.frame.rows() == [("Video Games", 200), ("Books", 100)]
    assert (outcome.counters.read, outcome.counters.rejected) == (301, 1)


def test_a_glob_takes_files_only(folder: Path) -> None:
    (folder / "folder.log").mkdir()
    os.mkfifo(folder / "pipe.log")
    outcome = evaluate(job("SELECT count(*) AS n FROM clicks"), [str(folder / "*.log")], "json")
    assert (outcome.frame.item(), len(outcome.inputs.files)) == (200, 2)


def test_a_windowed_job_over_nothing_has_its_columns(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    frame = evaluate(
        job(TOP), [str(tmp_path / "empty.log")], "json", parse_columns("product STRING, price INT, category STRING")
    ).frame
    assert frame.columns == ["window_start", "window_end", "product", "clicks", "total"]
    assert frame.height == 0


def test_access_logs(tmp_path: Path) -> None:
    line = '10.0.0.{n} - - [20/Nov/2026:12:00:0{n} +0000] "GET /p{p} HTTP/1.1" {s} 5 "-" "curl"\n'
    text = "".join(line.format(n=n, p=n % 2, s=200 if n else 500) for n in range(10))
    (tmp_path / "access.log").write_text(text)
    query = "SELECT path, status, count(*) AS n, sum(bytes) AS b FROM access GROUP BY path, status ORDER BY 1, 2"
    frame = evaluate(job(query), [str(tmp_path / "access.log")], "combined").frame
    assert frame.rows() == [("/p0", 200, 4, 20), ("/p0", 500, 1, 5), ("/p1", 200, 5, 25)]


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r\r\n").encode(),
        lambda text: text.removesuffix("\n").encode(),
        lambda text: bytes(5_000) + text.encode() + bytes(9),
        lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
        lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
        lambda text: gzip.compress(b"\xff\xfe" + text.replace("\n", "\r\n").encode("utf-16-le")),
    ],
    ids=["plain", "mark", "CR LF", "CR CR LF", "no newline", "NUL", "UTF-16LE", "UTF-16BE", "UTF-16LE in gzip"],
)
def test_lines_are_the_same_in_any_encoding(tmp_path: Path, encode: Callable[[str], bytes]) -> None:
    line = '192.0.2.7 - - [26/Nov/2026:12:00:0{n} +0000] "GET /caf\u00e9 HTTP/1.1" {status} 5 "-" "c"\n'
    text = "".join(line.format(n=n, status=503 if n % 5 == 0 else 200) for n in range(10))
    (tmp_path / "access.log").write_bytes(encode(text))
    query = "SELECT path, status, count(*) AS n FROM access GROUP BY path, status ORDER BY status"
    outcome = evaluate(job(query), [str(tmp_path / "access.log")], "combined")
    assert outcome.frame.rows() == [("/caf\u00e9", 200, 8), ("/caf\u00e9", 503, 2)]
    rest = 1 if encode(text).endswith(b"\0" * 9) else 0  # NULs behind the last newline are a line with nothing in it
    assert (outcome.counters.read, outcome.counters.rejected) == (10 + rest, rest)


def test_given_types_win(folder: Path) -> None:
    query = "SELECT sum(price) AS total FROM clicks"
    frame = evaluate(job(query), [str(folder / "all.ndjson")], "json", {"price": SqlType.DOUBLE}).frame
    assert frame.schema == {"total": pl.Float64()}


def test_a_line_without_end_does_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oneshot, "CHUNK_BYTES", 64 << 10)
    good = '{"ts": 1790000000, "a": 1}\n'
    (tmp_path / "huge.log").write_text(good + "x" * (3 * LINE_BYTES_MAX) + "\n" + good)
    (file,) = find_inputs([str(tmp_path / "huge.log")]).files
    assert max(map(len, file.chunks(64 << 10))) < LINE_BYTES_MAX + (128 << 10)
    outcome = evaluate(job("SELECT count(*) AS n FROM x"), [str(tmp_path / "huge.log")], "json")
    assert outcome.frame.rows() == [(2,)]
    assert (outcome.counters.read, outcome.counters.rejected) == (3, 1)


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_file_that_cannot_be_read_to_its_end_gives_no_result(folder: Path, tmp_path: Path, damage: str) -> None:
    text = (folder / "all.ndjson").read_bytes()
    data = bytearray(gzip.compress(text) + gzip.compress(text))
    whole = tmp_path / "whole.ndjson.gz"
    whole.write_bytes(data)
    twice = evaluate(job("SELECT count(*) AS n FROM clicks"), [str(whole)], "json").frame
    assert twice.item() == 2 * text.count(b"\n")
    if damage == "flipped":
        data[len(data) // 4] ^= 0xFF
    damaged = tmp_path / "damaged.ndjson.gz"
    damaged.write_bytes({"flipped": data, "cut": data[:-9]}[damage])
    said = "gzip data end in the middle" if damage == "cut" else "damaged gzip data"
    with pytest.raises(JobError, match=f"damaged.ndjson.gz: .*{said}.*; mend it, or leave it out of the input"):
        evaluate(job("SELECT count(*) AS n FROM clicks"), [str(whole), str(damaged)], "json")


def test_files_of_a_glob_that_are_no_logs_are_named_and_the_others_count(folder: Path) -> None:
    (folder / "d.log").write_bytes(b"\x7fELF and more\n" * 9)
    (folder / "e.log").write_bytes(tarred(b"a line\n"))
    outcome = evaluate(job("SELECT count(*) AS n FROM clicks"), [str(folder / "*.log")], "json")
    assert outcome.frame.item() == 200
    assert list(outcome.misfits) == [str(folder / "d.log")]
    assert outcome.inputs.unreadable == {
        str(folder / "e.log"): "a tar archive, not a log: unpack it with tar -x",
    }
    assert (outcome.counters.read, outcome.counters.rejected) == (210, 10)
    # One whose lines the filter rules out, but for a bad one, is none of them; one that it rules out whole may be.
    (folder / "f.log").write_text('{"ts": 1790000000, "product": "hay"}\n' * 50 + "no JSON, but a Video Games\n")
    assert list(evaluate(job(TOP), [str(folder / "[df].log")], "json", COLUMNS).misfits) == [str(folder / "d.log")]


def tarred(data: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("access.log")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def test_a_pipe_is_looked_at_before_all_of_it_is_read(folder: Path) -> None:
    """Types are inferred from its front, and a filter that rules all lines out has a second look at that."""
    os.mkfifo(folder / "pipe")
    for query, rows in (("product = 'p1'", 1), ("product = 'none'", 0)):
        writer = threading.Thread(target=(folder / "pipe").write_bytes, args=[(folder / "all.ndjson").read_bytes()])
        writer.start()
        wanted = job(f"SELECT product, sum(price) AS total FROM clicks WHERE {query} GROUP BY product")
        outcome = evaluate(wanted, [str(folder / "pipe")], "json")
        writer.join()
        assert outcome.frame.height == rows and outcome.counters.read == 300 and not outcome.misfits


def test_mistakes(folder: Path) -> None:
    file = [str(folder / "all.ndjson")]
    with pytest.raises(JobSpecError, match="no column 'prodct'; did you mean 'product'") as caught:
        evaluate(job("SELECT\n  prodct, count(*) AS n FROM clicks GROUP BY prodct"), file, "json")
    assert (caught.value.line, caught.value.column) == (2, 3)
    with pytest.raises(JobError, match="no file matches"):
        evaluate(job(TOP), [*file, str(folder / "*.txt")], "json")
    with pytest.raises(JobError, match="directory"):
        evaluate(job(TOP), [str(folder)], "json", COLUMNS)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        with pytest.raises(JobError, match="socket: a socket, not a file"):
            evaluate(job(TOP), [str(folder / "socket")], "json", COLUMNS)
    with pytest.raises(ConfigError, match="did you mean 'json'"):
        evaluate(job(TOP), file, "jsn")


def test_columns_as_spark_writes_them() -> None:
    assert parse_columns("a BIGINT,  b  string") == {"a": SqlType.BIGINT, "b": SqlType.STRING}
    assert parse_columns("") == {}
    for bad in ("a", "a BIGNT"):
        with pytest.raises(JobError, match="price DOUBLE"):
            parse_columns(bad)


def test_a_job_that_reads_its_last_result_iterates_over_the_windows_of_the_files(tmp_path: Path) -> None:
    lines = [{"ts": 1_790_000_000_000 + 1_000 * at, "a": a, "b": b} for at in (0, 1, 2, 9) for a, b in ("xy", "yz")]
    (tmp_path / "edges.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    query = """
    SELECT e.b AS node, min(coalesce(r.label, e.a)) AS label FROM edges e LEFT JOIN last_result r ON e.a = r.node
    GROUP BY e.b, window(ts, '3 seconds', '1 second') ORDER BY node
    """
    found = evaluate(job(query), [str(tmp_path / "edges.json")], "json").frame
    labels = [tuple(rows["label"]) for _, rows in found.group_by("window_end", maintain_order=True)]
    # After a window without rows it begins anew.
    assert labels == [("x", "y"), *[("x", "x")] * 4, ("x", "y"), ("x", "x"), ("x", "x")]


@given(st.lists(st.integers(-50, 50), max_size=8), st.integers(1, 9), st.integers(1, 9))
def test_windows_are_those_that_hold_an_event(seconds: list[int], size_s: int, slide_s: int) -> None:
    slide_s = min(slide_s, size_s)
    plan = plan_over(size_s, slide_s)
    intervals = pl.DataFrame(
        {INTERVAL: sorted({1_000 * at // plan.interval_ms for at in seconds})}, {INTERVAL: pl.Int64}
    )
    starts = (start for start in range(-100, 100) if start % slide_s == 0)
    wanted = [1_000 * (start + size_s) for start in starts if any(start <= at < start + size_s for at in seconds)]
    assert oneshot._window_ends(plan, intervals) == wanted


def plan_over(size_s: int, slide_s: int) -> Plan:
    query = f"SELECT a, count(*) AS n FROM e GROUP BY a, window(ts, '{size_s} seconds', '{slide_s} seconds')"
    return compile_job(job(query), {"a": SqlType.STRING})


def test_events_may_be_ages_apart(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text("".join(f'{{"ts": {at}, "a": "x"}}\n' for at in (0, 32_503_680_000_000)))
    query = "SELECT a, count(*) AS n FROM e GROUP BY a, window(ts, '3 seconds', '1 second')"
    found = evaluate(job(query), [str(tmp_path / "e.json")], "json").frame
    assert found["n"].to_list() == [1] * 6


def test_paths_lead_into_objects(tmp_path: Path) -> None:
    lines = [{"meta": {"at": 1_795_683_600 + n}, "r": {"uri": f"/{n % 2}", "n": [n]}} for n in range(4)]
    (tmp_path / "e.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    query = "SELECT r.uri, sum(r.n[0]) AS n FROM e WHERE get_json_object(r, '$.n[0]') > 0 GROUP BY r.uri ORDER BY 1"
    outcome = evaluate(job(query), [str(tmp_path / "e.json")], "json", time="meta.at")
    assert outcome.frame.rows() == [("/0", 2), ("/1", 4)]
    with pytest.raises(JobSpecError, match=r"no column 'r\.url'; did you mean 'r\.uri'"):
        evaluate(job(query.replace("r.uri", "r.url")), [str(tmp_path / "e.json")], "json", time="meta.at")


def test_a_format_with_a_name_says_how_to_read_the_names_that_lines_have(tmp_path: Path) -> None:
    line = {"ts": 1_795_683_600.5, "request": {"method": "GET", "uri": "/a"}}
    (tmp_path / "e.json").write_text(json.dumps(line) + "\n")
    query = "SELECT request.uri, count(*) AS n FROM e GROUP BY 1"
    with pytest.raises(JobSpecError, match=r"columns of caddy; `--format json --time ts` has the lines' own"):
        evaluate(job(query), [str(tmp_path / "e.json")], "caddy")
    assert evaluate(job(query), [str(tmp_path / "e.json")], "json").frame.rows() == [("/a", 1)]


def test_paths_lead_into_texts_that_are_objects(tmp_path: Path) -> None:
    logs = [json.dumps({"status": 200 + n % 2}) + "\n" for n in range(5)] + ["starting\n"]
    lines = [{"log": log, "time": f"2026-11-26T09:00:0{n}Z"} for n, log in enumerate(logs)]
    (tmp_path / "e.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    query = "SELECT log.status, count(*) AS n FROM e WHERE log.status IS NOT NULL GROUP BY 1 ORDER BY 1"
    outcome = evaluate(job(query), [str(tmp_path / "e.json")], "json", time="time", unwrap="log")
    assert outcome.frame.rows() == [(200, 3), (201, 2)]
    assert outcome.counters.parsed == 6


def test_a_line_that_was_cut_may_lie_in_two_files_of_its_log(tmp_path: Path) -> None:
    """The files of a log are read oldest first, whatever their names, so that no half of a line is a line."""
    around = "2026-11-26T09:00:00Z stdout"
    (tmp_path / "0.log.20261126-090000").write_text(f'{around} P 192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET /a\n')
    (tmp_path / "0.log").write_text(f'{around} F b HTTP/1.1" 200 7\n')
    os.utime(tmp_path / "0.log.20261126-090000", (1, 1))
    query = job("SELECT path, count(*) AS n FROM log GROUP BY path")
    outcome = evaluate(query, [str(tmp_path / "0.log*")], "cri+common")
    assert outcome.frame.rows() == [("/ab", 1)]
    assert outcome.counters.parts == 1 and outcome.counters.balanced


@pytest.mark.parametrize("where", ["note = 'x\nts,note'", "note LIKE '%\nts%'", "note LIKE 'x%'"])
def test_a_filter_may_ask_for_a_text_of_several_lines(tmp_path: Path, where: str) -> None:
    log = tmp_path / "a.csv"
    rows = 'ts,note\n2026-11-26T09:00:00Z,"x\nts,note"\n2026-11-26T09:00:00Z,ts\n2026-11-26T09:00:00Z,"y\xff\n"\n'
    log.write_bytes(rows.encode("latin-1"))
    outcome = evaluate(job(f"SELECT count(*) AS n FROM log WHERE {where}"), [str(log)], "csv")
    assert outcome.frame.rows() == [(1,)] and outcome.counters.balanced and outcome.counters.read == 6
