"""With a cluster secret only those who hold it take part."""

import pathlib
import subprocess
import sys

import elf
from elf.overlay.ids import Contact, distance, parse_address, source_id
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
            (reason, *more) = agent.get_reasons()
            assert reason.startswith("no agent of overlay.join answers yet") and not more
        wait_until(
            lambda: all("overlay.secret_file" in agent.get_reasons()[0] for agent in (stranger, open_one)),
            "the strangers say what to compare",
        )
        notes = "".join(first.get("/readyz")["notes"])
        for agent, why in ((stranger, "their cluster secret is not ours"), (open_one, "they have no seal")):
            assert f"datagrams from {agent.overlay} are not heard: {why}" in notes
            assert first.messages().count(f"datagrams from {agent.overlay} are not heard") == 1


def test_an_agent_whose_calls_are_turned_away_is_not_ready_and_says_why(tmp_path: pathlib.Path) -> None:
    shared = secret(tmp_path / "secret", "c")
    command = [sys.executable, "-m", "elf", "certgen", "--out", str(tmp_path / "certs"), "--address", "127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    files = {"cert": "127.0.0.1.pem", "key": "127.0.0.1-key.pem", "ca": "ca.pem"}
    certificates = {f"tls_{part}_file": str(tmp_path / "certs" / name) for part, name in files.items()}
    member = AgentProcess(tmp_path, "member", {}, [], overlay=shared | certificates)
    plain = AgentProcess(tmp_path, "plain", {}, [member.overlay], overlay=shared, joins=False)
    # The source's tree has the member for its root, so it is the other one that calls.
    near, far = (Contact.at(*parse_address(agent.overlay)) for agent in (member, plain))
    names = (f"orders{number}" for number in range(1_000))
    name = next(n for n in names if distance(near.id, source_id(n)) < distance(far.id, source_id(n)))
    for agent, join in ((member, []), (plain, [member.overlay])):
        overlay = shared | (certificates if agent is member else {})
        agent.configure({name: {"columns": {"product": "STRING"}}}, join, overlay)
    with running([member, plain]):
        reasons = wait_until(
            lambda: [reason for reason in plain.get_reasons() if member.overlay in reason], "the plain agent says why"
        )
        assert "it hangs up" in reasons[0] and "overlay.tls_cert_file" in reasons[0]
        assert member.ready()
