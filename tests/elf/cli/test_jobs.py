"""Commands that ask an agent: what they print where, and how they end."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from elf.agents.errors import JobConflictError, JobSpecError, UnavailableError
from elf.cli.app import app
from elf.client.results import Tree, TreeNode
from tests.agents.http.fake_service import make_result
from tests.elf.fake_agent import Agent


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands believe that a person is looking."""
    monkeypatch.setattr("elf.cli.jobs.wants_json", lambda asked: asked)


def run(agent: Agent, *arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"ELF_AGENT": agent.url, "COLUMNS": "100"})


def lines_of(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_publish_query_and_stop_in_a_pipe(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "visits.sql"
    file.write_text("SELECT 2")
    published = run(agent, "publish", file)
    assert (published.exit_code, lines_of(published)[0]["creator"]) == (0, "me")
    assert {job["name"] for job in lines_of(run(agent, "jobs"))} == {"top", "visits"}
    result = run(agent, "query", "top", "--window", "300s", "--key", "zelda", "--limit", "2")
    assert lines_of(result) == [make_result(rows=[{"product": "zelda", "clicks": 5}]) | {"through_ms": None}]
    assert agent.service.asked == [("300s", "zelda", 2)]
    assert lines_of(run(agent, "members"))[0]["address"] == "127.0.0.1:4250"
    assert lines_of(run(agent, "tree", "shop/top"))[0]["root"] == "aa"
    assert run(agent, "stop", "visits").exit_code == 0
    assert run(agent, "query", "visits").exit_code == 2
    assert run(agent, "query", "top", "--require", "complete").exit_code == 0
    lacking = {**make_result()["completeness"], "reported": 4, "missing": ["web3"], "status": "final_incomplete"}
    agent.service.result_of["shop", "top"] = make_result(completeness=lacking)
    refused = run(agent, "query", "top", "--require", "complete")
    assert (refused.exit_code, refused.stdout) == (69, "") and "missing: web3" in refused.stderr


@pytest.mark.usefixtures("terminal")
def test_tables_for_people(agent: Agent, tmp_path: Path) -> None:
    agent.service.result_of["shop", "top"] = make_result(
        completeness={
            **make_result()["completeness"],
            "reported": 4,
            "missing": ["web5"],
            "late": 3,
            "status": "final_incomplete",
        }
    )
    result = run(agent, "query", "top")
    assert "1970-01-01 00:00:30 to 00:01:00 UTC" in result.stdout
    assert "tetris" in result.stdout
    assert (
        "final, but incomplete · whole from 4 of 5 agents · some or all missing of web5 · 3 late events"
        in result.stdout
    )
    assert result.stderr == "asked 127.0.0.1:4251 > 127.0.0.1:4250\n"
    assert "shop/top" in run(agent, "jobs").stdout
    shown = run(agent, "members").stdout
    assert "this one" in shown and "0.1.0" in shown
    drawn = run(agent, "tree", "top").stdout
    assert [line.strip("│├└─ ").split()[0] for line in drawn.splitlines() if line.strip()] == ["web1", "web2", "web3"]
    assert "root, the job's master" in drawn.splitlines()[0]
    file = tmp_path / "visits.sql"
    file.write_text("SELECT 2")
    assert "published me/visits" in run(agent, "publish", file).stdout


@pytest.mark.usefixtures("terminal")
def test_why_a_total_names_agents_for_good_is_said(agent: Agent) -> None:
    lacking = {**make_result()["completeness"], "reported": 4, "missing": ["web5"], "status": "open"}
    agent.service.result_of["shop", "top"] = make_result(completeness=lacking, window=None)
    assert "· a total lacks what an agent read before the job came" in " ".join(
        run(agent, "query", "top").stdout.split()
    )
    agent.service.result_of["shop", "top"] = make_result(completeness=lacking)
    assert "before the job came" not in run(agent, "query", "top").stdout


def test_json_may_be_asked_for_on_a_terminal(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert lines_of(run(agent, "query", "top", "--json"))


@pytest.mark.usefixtures("terminal")
def test_data_cannot_steer_the_terminal(agent: Agent) -> None:
    evil = "\x1b]0;owned\x07\u009b2J\u202egpj.exe[bold]"
    agent.service.result_of["shop", "top"] = make_result(rows=[{"product": evil, "clicks": 1}], hops=[evil])
    agent.service.published["shop", "top"]["source"] = evil
    for result in (run(agent, "query", "top"), run(agent, "jobs"), run(agent, "query", "top", "--json")):
        assert not {"\x1b", "\x07", "\u009b", "\u202e"} & {*result.stdout, *result.stderr}
    assert r"\x1b]0;owned\x07\x9b2J\u202egpj.exe[bold]" in run(agent, "query", "top").stdout
    assert lines_of(run(agent, "query", "top", "--json"))[0]["hops"] == [evil]


def test_no_rows_is_exit_code_1(agent: Agent) -> None:
    result = run(agent, "query", "top", "--key", "chess")
    assert (result.exit_code, "--key" in result.stderr) == (1, False)


def test_a_key_is_asked_for_without_its_column(agent: Agent) -> None:
    result = run(agent, "query", "top", "--key", "product=zelda")
    assert result.exit_code == 1 and "without the column's name it is --key zelda" in result.stderr
    assert "--key" not in run(agent, "query", "top", "--key", "colour=red").stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["query", "tip"], 2, "no job 'tip'; did you mean 'top'"),
        (["query", "shop/tip"], 2, "did you mean 'shop/top'"),
        (["query", "../x"], 2, "CREATOR/NAME"),
        (["query", "top", "--window", "soon"], 2, "START/END"),
        (["query", "top", "--limit", "0"], 2, "--limit"),
        (["query"], 2, "NAME"),
        (["qeury", "top"], 2, "query"),
        (["publish", "/no/such.toml"], 2, "No such file"),
        (
            ["jobs", "--agent", "http://127.0.0.1:9", "--timeout", "0.5"],
            69,
            "no agent answers at http://127.0.0.1:9; start one with `elf agent`, or name another URL (asked ",
        ),
        (["jobs", "--agent", "127.0.0.1"], 2, "is not an agent's URL"),
        (["jobs", "--agent", ""], 2, "is not an agent's URL"),
        (["jobs", "--timeout", "0"], 2, "--timeout"),
        (["jobs", "--timeout", "soon"], 2, "--timeout"),
        (["jobs", "--token-file", "/no/such"], 78, "token file"),
    ],
)
def test_mistakes_have_a_sentence_and_a_code(agent: Agent, arguments: list[str], code: int, said: str) -> None:
    result = run(agent, *arguments)
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("error", "code"), [(UnavailableError("away"), 69), (JobConflictError("other"), 2), (RuntimeError("bug"), 69)]
)
def test_errors_of_the_agent(agent: Agent, error: Exception, code: int) -> None:
    agent.service.fail = error
    assert run(agent, "jobs", "--timeout", "0.5").exit_code == code


def test_a_token_comes_from_a_file(guarded_agent: Agent, tmp_path: Path) -> None:
    assert run(guarded_agent, "jobs").exit_code == 78
    (tmp_path / "token").write_text("s3cret\n")
    assert run(guarded_agent, "jobs", "--token-file", tmp_path / "token").exit_code == 0


def test_publish_points_into_the_file(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('name = "a"\nquery = """\nSELECT product, count(*) AS n FROM clicks GROUP BY product"""\n')
    agent.service.fail = JobSpecError("source 'clicks' has no column 'product'", line=1, column=8, hint="products")
    result = run(agent, "publish", file)
    assert result.exit_code == 2
    assert f"{file}:3:8: source 'clicks' has no column 'product' (products)" in result.stderr
    file.write_text('name = "a"\nquery = """\nSELEC product"""\n')
    assert f"{file}:3:" in run(agent, "publish", file).stderr


OWN = """name = "a"
query = '''
SELECT section(path) AS s, count(*) AS n FROM clicks GROUP BY section(path)
'''
[options]
lateness = "1s"
application = "best"
[functions.section]
args = ["STRING"]
returns = "STRING"
file = "section.py"
"""


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (JobSpecError("no application 'best' is installed", setting="options.application"), "7:1"),
        (JobSpecError("this agent does not run them", setting="functions.section"), "8:2"),
        (JobSpecError("the job is too wide", setting="options.trees"), "5:2"),
        (JobSpecError("source 'clicks' has no column 'path'", line=1, column=16), "3:16"),
    ],
)
def test_publish_points_at_what_the_agent_refuses(
    agent: Agent, tmp_path: Path, error: JobSpecError, place: str
) -> None:
    file, key = tmp_path / "job.toml", tmp_path / "shop.key"
    file.write_text(OWN)
    (tmp_path / "section.py").write_text("def section(path):\n    return path\n")
    key.write_text("ab" * 32)
    agent.service.fail = error
    result = run(agent, "publish", file, "--key", key)
    assert (result.exit_code, result.stderr) == (2, f"{file}:{place}: {error.message}\n")
    # Without the key the file of its function stays behind, which an agent cannot tell of a line of the query.
    assert f"{file}:11:1: functions.section is not signed" in run(agent, "publish", file).stderr


def test_watch_in_a_pipe_is_a_line_per_result(agent: Agent) -> None:
    sender = threading.Thread(target=agent.send, args=(make_result(), make_result(end_ms=90_000), None))
    sender.start()
    result = run(agent, "watch", "top")
    sender.join()
    assert [line["window"]["end_ms"] for line in lines_of(result)] == [60_000, 90_000]
    assert result.exit_code == 0


@pytest.mark.usefixtures("terminal")
def test_watch_on_a_terminal_is_a_table(agent: Agent) -> None:
    sender = threading.Thread(target=agent.send, args=(make_result(), None))
    sender.start()
    result = run(agent, "watch", "top")
    sender.join()
    assert "tetris" in result.stdout
    assert "final · 5 of 5 agents" in result.stdout
    assert "was stopped" in result.stderr


@pytest.mark.usefixtures("terminal")
def test_watch_ends_with_a_result_that_is_the_last_one(agent: Agent) -> None:
    news = [make_result(end_ms=end_ms) | {"converged": end_ms > 60_000} for end_ms in (60_000, 90_000)]
    sender = threading.Thread(target=agent.send, args=news)
    sender.start()
    result = run(agent, "watch", "top", "--until", "converged")
    sender.join()
    assert "revision 1 · converged" in result.stdout
    assert "has converged" in result.stderr and result.exit_code == 0


def test_a_tree_with_cycles_and_orphans_is_drawn_to_the_end() -> None:
    from elf.cli.jobs import draw_tree
    from elf.cli.output import console

    nodes = [
        TreeNode("a", "h:1", "[red]root", None, "master"),
        TreeNode("b", "h:2", "", "a", "worker"),
        TreeNode("c", "h:3", "lost", "zz", "worker"),
        TreeNode("d", "h:4", "loop", "e", "worker"),
        TreeNode("e", "h:5", "loop2", "d", "worker"),
    ]
    with (screen := console()).capture() as capture:
        screen.print(draw_tree(Tree("a", nodes)))
    text = capture.get()
    assert "[red]root" in text
    assert "h:2" in text
    assert "lost" in text


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_force_does_nothing_without_a_yes(agent: Agent, answer: str) -> None:
    agent.service.fail = AssertionError("nothing is asked of the agent")
    result = CliRunner().invoke(app, ["force", "top"], env={"ELF_AGENT": agent.url}, input=answer)
    assert (result.exit_code, result.stderr.endswith("elf: nothing was done\n")) == (130, True), result.stderr


def test_retire_tells_the_gap_and_whom_it_could_not_tell(agent: Agent, terminal: None) -> None:
    result = run(agent, "retire", "web3", "--job", "top")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "web3 (cc) is expected no more",
        "shop/top has its data up to 1970-01-01 00:01:00 UTC",
    ]
    result = run(agent, "retire", "web3")
    assert (result.exit_code, result.stderr.splitlines()) == (
        69,
        [f"not told: {whom}no answer in time; say it again later" for whom in ("shop/best ", "")],
    )
    assert run(agent, "retire", "web9").exit_code == 2
