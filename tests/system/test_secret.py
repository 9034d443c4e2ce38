"""With a cluster secret only those who hold it take part."""

import pathlib

import elf
from tests.system.cluster import AgentProcess, running, wait_until

JOB = 'name = "sold"\ncreator = "shop"\nquery = "SELECT count(*) AS n FROM orders"\n[options]\ninterval = "1s"\n'


def secret(path: pathlib.Path, digit: str) -> dict[str, str]:
    path.write_text(digit * 64 + "\n")
    path.chmod(0o600)
    return {"secret_file": str(path)}


def test_agents_of_one_secret_work_together_and_strangers_stay_outside(tmp_path: pathlib.Path) -> None:
    ours, theirs = secret(tmp_path / "ours", "a"), secret(tmp_path / "theirs", "b")
    source = {"orders": {"columns": {"product": "STRING"}}}
    first = AgentProcess(tmp_path, "first", source, [], overlay=ours)
    friend = AgentProcess(tmp_path, "friend", source, [first.overlay], overlay=ours)
    stranger = AgentProcess(tmp_path, "stranger", source, [first.overlay], overlay=theirs, joins=False)
    open_one = AgentProcess(tmp_path, "open", source, [first.overlay], joins=False)
    with running([first, friend, stranger, open_one]), elf.connect(first.url) as client:
        client.publish(text=JOB)
        for agent in (first, friend, stranger, open_one):
            with elf.connect(agent.url) as other:
                other.ingest("orders", [{"ts": "2026-01-01T00:00:00Z", "product": agent.name}])
        wait_until(lambda: client.query("shop/sold").rows == [{"n": 2}], "the two that share the secret are counted")
        assert {member.name for member in client.members()} == {"first", "friend"}
        for agent in (stranger, open_one):
            with elf.connect(agent.url) as other:
                assert [member.name for member in other.members()] == [agent.name]
                assert other.jobs() == []
            assert agent.get_reasons() == ["no agent of overlay.join answers yet"]
