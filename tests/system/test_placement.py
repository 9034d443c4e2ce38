"""Jobs spread over agents by two candidate roots each; any agent finds any master, whichever candidate is down."""

import functools
import time
import urllib.error
from collections.abc import Iterator

import pytest

import elf
from elf.overlay.ids import Contact, app_id, distance, parse_address
from elf.overlay.placement import SALTS, candidate_key
from tests.system.cluster import AgentProcess, make_agents, running, wait_until

AGENTS, JOBS = 6, 12
QUERY = "SELECT product, sum(quantity) AS n FROM orders GROUP BY product"


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    """Six agents; only the first two have the source, so the others must look for masters."""
    source = {"orders": {"columns": {"product": "STRING", "quantity": "BIGINT"}}}
    made = make_agents(tmp_path_factory.mktemp("agents"), [source] * 2 + [{}] * (AGENTS - 2))
    with running(made):
        wait_until(lambda: all(members(agent) == AGENTS for agent in made), "all agents know each other")
        yield made


def members(agent: AgentProcess) -> int:
    with elf.connect(agent.url) as client:
        return len(client.members())


def contact_of(agent: AgentProcess) -> Contact:
    return Contact.at(*parse_address(agent.overlay))


def candidate(name: str, salt: int, agents: list[AgentProcess]) -> AgentProcess:
    """Return the agent closest to a job's candidate key."""
    key = candidate_key(app_id(name, "shop"), salt)
    return min(agents, key=lambda agent: distance(contact_of(agent).id, key))


def publish(agent: AgentProcess, name: str) -> str:
    """Publish a job and return its master's address."""
    text = f'name = "{name}"\ncreator = "shop"\nquery = """\n{QUERY}\n"""\n[options]\ninterval = "1s"\n'
    with elf.connect(agent.url) as client:
        client.publish(text=text)
        return {job.key: job.master for job in client.jobs()}[f"shop/{name}"]


def name_with(first: AgentProcess, second: AgentProcess, agents: list[AgentProcess], prefix: str) -> str:
    """Return a name whose two candidates are these agents."""
    names = (f"{prefix}-{number}" for number in range(100_000))
    return next(n for n in names if [candidate(n, salt, agents) for salt in SALTS] == [first, second])


def test_the_less_loaded_candidate_becomes_master_and_every_agent_finds_it(agents: list[AgentProcess]) -> None:
    # The root of the source's tree has a tree already; jobs on the two others start from nothing.
    roots = dict.fromkeys((agent.overlay for agent in agents), 0)
    salts = []
    for number in range(JOBS):
        # All on the same two candidates, in the same order: each must win as soon as the other has more.
        name = name_with(agents[0], agents[1], agents, f"job-{number}")
        master = publish(agents[number % AGENTS], name)
        chosen = [candidate(name, salt, agents).overlay for salt in SALTS]
        assert master in chosen
        other = chosen[1 - chosen.index(master)]
        assert roots[master] <= roots[other] + 1, "the one source tree is the only root not counted here"
        roots[master] += 1
        salts.append(chosen.index(master))
        for agent in agents:
            with elf.connect(agent.url) as client:
                assert client.query(f"shop/{name}").master == master
    assert set(salts) == set(SALTS), "either key wins when its agent has less to do"


def test_a_job_published_again_while_it_runs_keeps_its_master(agents: list[AgentProcess]) -> None:
    master = publish(agents[0], "kept")
    for number, agent in enumerate(agents):
        publish(agent, f"filler-{number}")
        assert publish(agent, "kept") == master


def test_a_job_stopped_and_published_anew_is_found_at_its_new_master(agents: list[AgentProcess]) -> None:
    """Until the loads of its two candidates have changed places; agents that knew the old master ask the new one."""
    first, second = agents[3], agents[4]
    name = name_with(first, second, agents, "moving")
    masters = set()
    for number in range(10):
        masters.add(publish(agents[0], name))
        for agent in agents:
            with elf.connect(agent.url) as client:
                assert client.query(f"shop/{name}").job == f"shop/{name}"
        if len(masters) == 2:
            return
        with elf.connect(agents[5].url) as client:
            client.stop(f"shop/{name}", keep="0s")
        loaded = first if first.overlay in masters else second
        publish(agents[1], name_with(loaded, loaded, agents, f"weight-{number}"))
    raise AssertionError(f"ten times the same master: {masters}")


def test_either_candidate_may_be_down(agents: list[AgentProcess]) -> None:
    """The last test of this module: it ends an agent."""
    down, up = agents[5], agents[2]
    pairs = (down, up), (up, down)
    masters = {name: publish(agents[0], name) for name in (name_with(*pair, agents, "running") for pair in pairs)}
    down.kill()
    left = [agent for agent in agents if agent is not down]
    for name in (name_with(*pair, agents, "new") for pair in pairs):
        # Right after a crash an agent may still be believed to live.
        masters[name] = wait_until(functools.partial(published, agents[3], name), f"{name} is published")
        assert masters[name] in {candidate(name, salt, left).overlay for salt in SALTS}
    for name, master in masters.items():
        for agent in left:
            ask = functools.partial(asked, agent, name)
            # Another member of its root group goes on with the dead one's job.
            answered = wait_until(ask, f"{name} is answered") if master == down.overlay else ask()
            assert answered is not None and answered != down.overlay
            assert answered == master or master == down.overlay


def asked(agent: AgentProcess, name: str) -> str | None:
    """Ask for a job, once, as no client does; return the master that answers, or None while there is none."""
    began = time.monotonic()
    try:
        return str(agent.get(f"/v1/jobs/shop/{name}/result")["master"])
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return None
    finally:
        assert time.monotonic() - began < 10, "nobody waits for the dead one longer than a question may take"


def published(agent: AgentProcess, name: str) -> str | None:
    """Publish a job and return its master, or None while that is not possible."""
    try:
        return publish(agent, name)
    except elf.UnavailableError:
        return None
