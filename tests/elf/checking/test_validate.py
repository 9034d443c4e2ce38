"""Each mistake is found at its place, with the word that was meant; a right file is taken as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from elf.agents.errors import ConfigError, JobError
from elf.agents.settings.config import AgentConfig
from elf.checking.validate import FILE_BYTES_MAX, check_config, check_file, check_job, load_config

GOOD = """\
[agent]
name = "web1"
data = "/var/lib/elf"

[overlay]
bind = "127.0.0.1:4250"
join = ["127.0.0.1:4251"]

[sources.access]
path = "/var/log/nginx/access.log*"
format = "combined"

[sources.clicks]
format = "json"
time = "at"
columns = { price = "double", product = "STRING" }

[sources.pasted]
format = '$remote_addr [$time_local] "$request" $status'
"""

CONFIG_CASES = [
    ('[agnet]\nname = "x"', "1:2", "no setting 'agnet'; did you mean 'agent'"),
    ("[agent]\nchunk_byte = 1", "2:1", "[agent] has no setting 'chunk_byte'; did you mean 'chunk_bytes'"),
    ('bind = "127.0.0.1:1"', "1:1", "belongs in [overlay] or [api]"),
    ("[archive]\nxyzzy = 1", "2:1", "it has enabled, path, rows_max, retain, bytes_max, copy_to"),
    ('[agent]\nchunk_bytes = "4MiB"', "2:15", "agent.chunk_bytes: expected a whole number, got text in quotes"),
    ("[agent]\n  chunk_bytes = 5", "2:17", "use 65536 to 16777216"),
    ("[overlay]\njoin = ['127.0.0.1:1', 'web2']", "2:24", "'web2' is not an address"),
    ('[overlay]\njoin = "web2:1"', "2:8", "expected array"),
    ('[overlay]\nbind = "0.0.0.0:4250"', "2:8", "elf keygen"),
    ('[overlay]\nbind = "4250"', "2:8", "HOST:PORT"),
    ("[overlay]\nlease_ms = 100", "2:12", "overlay.lease_ms = 100 is too short or too long; use 200 to 60000"),
    ('[overlay]\nsecret_file = "s"\nbind = "4250"', "3:8", "overlay.bind = '4250' is not an address"),
    ('[api]\nbind = "10.0.0.1:4260"', "2:8", "api.token_file"),
    ('[api]\nbind = "127.0.0.1:4250"', "2:8", "a port of its own"),
    ('[agent]\nlog_level = "warn"', "2:13", "did you mean 'warning'"),
    ("[archive]\nrows_max = 0", "2:12", "use 1 or more"),
    ('[archive]\nretain = "soon"', "2:10", "archive.retain = 'soon' is not a duration above zero"),
    ("[archive]\nbytes_max = 5", "2:13", "use 16777216 (16 MiB) or more, or 0 for no bound"),
    ('[archive]\ncopy_to = "bucket/elf"', "2:11", "archive.copy_to = no URL; write it like s3://bucket/elf"),
    ('[archive]\ncopy_to = "s3://key:hush@bucket/elf"', "2:11", "archive.copy_to = a URL with credentials"),
    ('[archive]\nenabled = false\ncopy_to = "s3://bucket/elf"', "3:11", "archive.copy_to = needs an archive to copy"),
    ('[archive]\nretian = "7d"', "2:1", "did you mean 'retain'"),
    ('[sources.clicks]\nformat = "jsno"', "2:10", "did you mean 'json'"),
    ("[sources.clicks]\nformat = '$remote_addr'", "2:10", "time"),
    ('[sources.clicks]\nstart = "middle"', "2:9", '"beginning" or "end"'),
    ('[sources.clicks]\n[sources.clicks.columns]\nprice = "DUBLE"', "3:9", "unknown column type 'DUBLE'"),
    ("[sources.a.privacy]\nip = 'prefxi'", "2:6", "ip = 'prefxi' is unknown; did you mean 'prefix'"),
    ("[sources.a.privacy]\nmsak = ['a']", "2:1", "[sources.a.privacy] has no setting 'msak'; did you mean 'mask'"),
    ("[sources.a.privacy]\nipv4_prefix = 20", "2:15", "ipv4_prefix = 20: use 8, 16 or 24"),
    ("[sources.a.privacy]\nipv4_prefix = 16", "2:15", "ipv4_prefix = 16 does nothing while addresses are kept"),
    ("[sources.a.privacy]\nip = 'keep'\nipv6_prefix = 32", "3:15", 'set ip = "prefix", too'),
    ("[sources.a.privacy]\nip = 'hash'", "2:6", "elf keygen"),
    ("[sources.a.privacy]\ndrop = ['ts']", "2:8", "the time of the event cannot be redacted"),
    ("[sources.a.privacy]\nsecret_keys = ['a b']", "2:15", "'a b': no key"),
    (
        "[sources.a]\nformat = 'combined'\n[sources.a.privacy]\ndrop = ['referer', 'user_agnet']",
        "4:20",
        "sources.a has no column 'user_agnet'; did you mean 'user_agent'",
    ),
    (
        "[sources.a]\nformat = 'combined'\n[sources.a.privacy]\nmask = ['referer', 'Status']",
        "4:20",
        "sources.a.privacy: mask = 'Status': it is INT, and '***' is text; put it into drop, which makes it null",
    ),
    (
        "[sources.a]\ncolumns = { cents = 'BIGINT', who = 'STRING' }\n[sources.a.privacy]\nmask = ['who', 'cents']",
        "4:16",
        "sources.a.privacy: mask = 'cents': it is BIGINT, and '***' is text; put it into drop",
    ),
    ("[sources.Clicks]\n", "1:2", "'Clicks' cannot be a source"),
    ('[sources]\nclicks = "/var/log"', "2:10", "sources.clicks must be a table"),
    ("agent = 1", "1:9", "agent must be a table"),
    ("[agent\n", "1:7", "not TOML"),
    ("name = ", "1:8", "not TOML"),
    ('x = "', "1:6", "not TOML"),
    ("[agent]\nname = web1\n", "2:8", 'not TOML: text needs quotes: name = "web1"'),
    ("[agent]\nname = 'a'\nname = 'b'", "3:11", "not TOML"),
]


def test_a_right_configuration(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(GOOD)
    config = load_config(file)
    assert (config.agent.name, config.overlay.join) == ("web1", ["127.0.0.1:4251"])
    assert config.sources["clicks"].columns == {"price": "double", "product": "STRING"}
    assert check_file(file).kind == "configuration"
    assert check_file(file).findings == ()
    assert check_config("", "empty.toml") == (AgentConfig(), ())


@pytest.mark.parametrize(("text", "place", "said"), CONFIG_CASES, ids=[case[2][:40] for case in CONFIG_CASES])
def test_mistakes_in_a_configuration(text: str, place: str, said: str) -> None:
    config, findings = check_config(text, "agent.toml")
    assert config is None
    assert len(findings) == 1, findings
    assert str(findings[0]).startswith(f"agent.toml:{place}: "), findings[0]
    assert said in findings[0].message


def test_all_mistakes_are_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('[sources.a]\nformt = "json"\n[agent]\nchunk_bytes = true\nnam = "x"\n')
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    places = [line.removeprefix(f"{file}:").split(": ")[0] for line in str(caught.value).splitlines()]
    assert places == ["2:1", "4:15", "5:1"]


JOB = 'name = "top"\ncreator = "shop"\nquery = """\nSELECT product, count(*) AS n\nFROM clicks\nGROUP BY product\n"""\n'
#: Its aggregate has to be of a number, and of which type `cents` are is not known.
WINDOWED = JOB.replace("count(*)", "sum(cents)").replace("BY product", "BY product, window(ts, '30 seconds')")
WINDOWED += "[options]\n"
JOB_CASES = [
    (JOB.replace("name =", "nmae ="), "1:1", "'nmae'"),
    (JOB + "[options]\nlatenes = '2s'\n", "9:1", "lateness"),
    (JOB + "[options]\nlateness = 'soon'\n", "9:1", "duration"),
    (JOB.replace("count(*)", "cuont(product)"), "4:17", "cuont"),
    (JOB.replace("count(*)", "cuont(*)").replace("GROUP", "WHERE cents > 4 GROUP"), "4:17", "cuont"),
    (JOB.replace("GROUP BY product", "GROUP BY product JOIN"), "6:", ""),
    (JOB + "[columns]\nproduct = 'STRNG'\n", "9:1", "STRING"),
    (JOB.replace("count(*)", "count(lower(product, 1, 2))"), "4:", ""),
    (WINDOWED + "interval = '7s'\n", "9:1", "the option interval (7000 ms) does not divide the window's size"),
    (WINDOWED + "trees = 2\nretain = '1s'\n", "10:1", "the option retain (1000 ms) is shorter than the window"),
    (WINDOWED + "emit_every = '7s'\n", "9:1", "the option emit_every (7000 ms) has to divide 30000 ms"),
    (JOB + "[options]\nstraggler = 'void'\n", "9:1", 'straggler = "void" drops intervals'),
    ("query = ", "1:9", "not TOML"),
    ('name = "a"\ncreator = me\n', "2:11", 'not TOML: text needs quotes: creator = "me"'),
    ("[options]\nlateness = 2 seconds\n", "2:12", "not TOML: text needs quotes"),
    ('name = "a"\nquery = "SELECT a FROM"', "2:", ""),
]


@pytest.mark.parametrize(("text", "place", "said"), JOB_CASES, ids=[case[2] or case[1] for case in JOB_CASES])
def test_mistakes_in_a_job(tmp_path: Path, text: str, place: str, said: str) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    checked = check_file(file)
    assert checked.kind == "job"
    assert str(checked.findings[0]).startswith(f"{file}:{place}"), checked.findings
    assert said in checked.findings[0].message


def test_right_jobs() -> None:
    assert check_job(JOB, "job.toml") == ()
    assert check_job(JOB + '[columns]\nproduct = "STRING"\n', "job.toml") == ()
    assert check_job("SELECT count(*) AS n FROM clicks", "visits.sql") == ()
    assert check_job("SELECT\n  count(* FROM clicks", "visits.sql")[0].line == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        check_file(tmp_path / "binary.toml")
    with pytest.raises(JobError, match="No such file"):
        check_file(tmp_path / "none.sql")
    (tmp_path / "large.toml").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="larger"):
        check_file(tmp_path / "large.toml")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT path, count(*) AS n FROM a WHERE status >= 400 GROUP BY status", "1:8: 'path' is neither in GROUP BY"),
        ("SELECT sum(DISTINCT bytes) AS n FROM a WHERE status >= 400", "1:8: sum(DISTINCT ...) is not in the job"),
        ("SELECT lower(p, 2) AS l FROM a WHERE status >= 400 GROUP BY lower(p, 2)", "1:61: lower() takes 1 argument"),
        # No type is a condition and a number, so all that is said is about types.
        ("SELECT status FROM a WHERE flag AND status > 4 GROUP BY status ORDER BY nn", ""),
        ("SELECT lower(path) AS p, count(*) AS n FROM a WHERE status >= 400 AND flag GROUP BY lower(path)", ""),
        ("SELECT max(d) AS d FROM a WHERE d > DATE'2026-01-01' AND NOT flag AND n % 2 = 0 AND s LIKE 'x%'", ""),
    ],
)
def test_what_is_wrong_whatever_types_columns_have_is_found_where_no_type_fits_all(query: str, found: str) -> None:
    findings = [str(finding) for finding in check_job(query, "a.sql")]
    assert [each.removeprefix("a.sql:")[: len(found)] for each in findings] == ([found] if found else [])
