"""A source from its settings: what these take out of its events is nowhere that an agent writes."""

from __future__ import annotations

import logging
import os
import pathlib

import polars as pl
import pytest

from elf.agents.errors import ConfigError
from elf.agents.host.clock import Clock
from elf.agents.intake.decoder import make_redactor, source_format
from elf.agents.intake.source_setup import describe_columns, make_pump
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import compile_job
from elf.agents.settings.config import AgentConfig, AgentSection, ArchiveSection, PrivacySection, SourceConfig
from elf.agents.sources.files import readers
from elf.agents.sources.files.readers import Reader
from elf.agents.sources.kept import Kept
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.database import Database
from elf.agents.worker.worker import Worker
from tests.agents.archive.archived import read_archive
from tests.agents.plans import opened

LINES = [
    '203.0.113.77 - ann [01/Jan/2026:00:00:01 +0000] "GET /a?token=s3cr3t&x=1 HTTP/1.1" 200 5 "-" "curl"',
    '203.0.113.99 - - [01/Jan/2026:00:00:02 +0000] "GET /b HTTP/1.1" 200 5 "/a?token=s3cr3t" "curl"',
    '2001:db8:1:2::77 - - [01/Jan/2026:00:00:03 +0000] "GET /c HTTP/1.1" 200 5 "-" "curl"',
    "203.0.113.77 rejected ?token=s3cr3t",
    '203.0.113.77 - ann [poison] "GET /a?token=s3cr3t HTTP/1.1" 200 5 "-" "curl"',
]
PRIVATE = PrivacySection(ip="prefix", mask=["remote_user"])
COUNT = "SELECT remote_addr, uri, referer, count(*) AS n FROM access GROUP BY remote_addr, uri, referer"


def run(
    folder: pathlib.Path, privacy: PrivacySection, query: str = COUNT, *, archived: bool = True
) -> list[dict[str, object]]:
    """Read the lines with one job, checkpoint, and return the rows that were sealed, without their hashes."""
    (folder / "logs").mkdir()
    (folder / "logs" / "access.log").write_text("\n".join(LINES) + "\n")
    source = SourceConfig(path=str(folder / "logs" / "*.log"), format="combined", privacy=privacy)
    config = AgentConfig(
        agent=AgentSection(data=str(folder / "data")),
        archive=ArchiveSection(enabled=archived),
        sources={"access": source},
    )
    database = Database(folder / "data" / "state.db")
    pump, _ = make_pump("access", source, config, folder / "data", "web-1", Checkpoints(database), Clock())
    definition = load_definition(f'name = "j"\ncreator = "c"\nquery = """{query}"""', filename="j.toml")
    plan = compile_job(definition, pump.decoder.columns if pump.decoder else {})
    pump.attach(Worker(plan, "w1", new=True))
    while pump.step():
        pass
    sealed = pump.checkpoint(force=True)
    assert pump.counters.balanced and pump.counters.read == len(LINES)
    database.close()
    payloads = [one.snapshot.payload for one in sealed if one.snapshot.payload is not None]
    return [row for payload in payloads for row in opened(payload, plan)[1].to_dicts()]


def written(folder: pathlib.Path) -> bytes:
    """Return all that the agent wrote, archived columns uncompressed too."""
    files = [path.read_bytes() for path in (folder / "data").rglob("*") if path.is_file()]
    texts = read_archive(folder / "data" / "archive", "access").write_json().encode()
    return b"\n".join([*files, texts])


def test_jobs_and_archive_see_the_same_redacted_events(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keep, parse = LayoutLines.keep, LayoutLines.parse

    def poisoned(self: LayoutLines, chunk: bytes, *others: object) -> object:
        if b"poison" in chunk:
            raise pl.exceptions.ComputeError(f"cannot look at {chunk.decode()}")
        return keep(self, chunk, *others)  # type: ignore[arg-type]

    def poisoned_too(self: LayoutLines, lines: Kept, *others: object) -> object:
        if b"poison" in lines.data:
            raise pl.exceptions.ComputeError(f"cannot parse {lines.data.decode()}")
        return parse(self, lines, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(LayoutLines, "keep", poisoned)
    monkeypatch.setattr(LayoutLines, "parse", poisoned_too)
    with caplog.at_level(logging.DEBUG):
        rows = run(tmp_path, PRIVATE)
    online = [(row["k0"], row["k1"], row["k2"], row["a0_n"]) for row in rows]
    archived = read_archive(tmp_path / "data" / "archive", "access")
    offline = archived.group_by("remote_addr", "uri", "referer").len().rows()
    assert len(online) == 3 and sorted(online, key=str) == sorted(offline, key=str)
    assert {row[0] for row in offline} == {"203.0.113.0", "2001:db8:1::"}
    assert "/a?token=***&x=1" in archived["uri"].to_list() and archived["remote_user"].to_list().count("***") == 1
    everything = written(tmp_path) + caplog.text.encode()
    for secret in (b"s3cr3t", b"203.0.113.77", b"203.0.113.99", b"2001:db8:1:2", b" ann "):
        assert secret not in everything, secret
    assert b"withheld for privacy" in everything and "cannot be parsed" in caplog.text


def test_secret_keys_are_masked_without_being_asked(tmp_path: pathlib.Path) -> None:
    run(tmp_path, PrivacySection())
    everything = written(tmp_path)
    assert b"s3cr3t" not in everything and b"203.0.113.77 rejected ?token=***" in everything


def test_a_text_that_redaction_makes_is_found_without_an_archive(tmp_path: pathlib.Path) -> None:
    """No archive: lines without what a job demands are skipped unparsed, but these have it only once redacted."""
    query = "SELECT count(*) AS n FROM access WHERE remote_addr = '203.0.113.0' AND uri LIKE '%token=***%'"
    assert [row["a0_n"] for row in run(tmp_path, PRIVATE, query, archived=False)] == [1]


def test_a_key_for_hashes_must_be_there_and_long(tmp_path: pathlib.Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(b"0123456789\n")
    short.chmod(0o600)
    for path, said in ((short, "has less than 16 bytes; `elf keygen"), (tmp_path / "none", "cannot be read: No such")):
        source = SourceConfig(format="combined", privacy=PrivacySection(ip="hash", key_file=str(path)))
        with pytest.raises(ConfigError, match=f"sources.access.privacy.key_file = .* {said}"):
            make_redactor("access", source, source_format("access", source))


def test_addresses_hash_alike_at_all_agents(tmp_path: pathlib.Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    key.chmod(0o600)
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows = run(tmp_path / name, PrivacySection(ip="hash", key_file=str(key)))
        found.append(sorted(str(row["k0"]) for row in rows))
        assert b"203.0.113" not in written(tmp_path / name)
    assert found[0] == found[1] and len(set(found[0])) == 3


def test_a_path_without_files_is_named_at_the_start_and_one_with_some_is_not(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs" / "a").mkdir(parents=True)
    (tmp_path / "logs" / "a" / "access.log").touch()
    database = Database(tmp_path / "data" / "state.db")

    def warnings(pattern: str) -> list[str]:
        caplog.clear()
        source = SourceConfig(path=pattern, format="combined")
        config = AgentConfig(agent=AgentSection(data=str(tmp_path / "data")), sources={"access": source})
        _, push = make_pump("access", source, config, tmp_path / "data", "web-1", Checkpoints(database), Clock())
        push.close()
        return [record.getMessage() for record in caplog.records]

    assert warnings("") == warnings(str(tmp_path / "logs" / "**" / "*.log")) == []
    wrong = str(tmp_path / "logs" / "acces.log")
    (warning,) = warnings(wrong)
    assert warning.startswith(f"source access: there is no file {wrong} yet")
    assert warnings(str(tmp_path / "logs")) == [f"source access: {tmp_path}/logs can be no log: Is a directory"]
    database.close()


def test_columns_are_told_from_the_newest_log_whatever_lies_beside_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    (logs / "old").mkdir(parents=True)
    os.mkfifo(logs / "pipe")
    for age, name in enumerate(("closed.log", "a.log", "b.log")):
        (logs / name).write_text(f'{{"ts":1,"{name[0]}":2}}\n')
        os.utime(logs / name, (1e9 - age, 1e9 - age))

    def open_reader(path: str) -> Reader:
        if path.endswith("closed.log"):
            raise PermissionError(13, "Permission denied")
        return readers.open_reader(path)

    monkeypatch.setattr("elf.agents.sources.files.samples.open_reader", open_reader)
    source = SourceConfig(path=str(logs / "*"), format="json")
    assert describe_columns("s", source, tmp_path / "push.log", ["a"])["columns"] == {"a": "BIGINT"}
    # Rotated away between two looks.
    monkeypatch.setattr(
        "elf.agents.sources.files.samples.matched_files", lambda _: [str(logs / "gone"), str(logs / "b.log")]
    )
    assert describe_columns("s", source, tmp_path / "push.log", ["b"])["columns"] == {"b": "BIGINT"}


def test_how_far_ahead_events_may_be_is_a_day_unless_the_source_says_otherwise() -> None:
    assert SourceConfig().ahead_ms_max == 86_400_000
    assert SourceConfig(ahead_max="90 minutes").ahead_ms_max == 5_400_000
    assert SourceConfig(ahead_max="").ahead_ms_max is None
    with pytest.raises(ConfigError, match=r"^ahead_max = 'soon' is not a duration.*or \"\" for no bound$"):
        SourceConfig(ahead_max="soon")
