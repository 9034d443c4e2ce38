"""The overlay between real processes, on loopback and on hosts of their own: what holds in the simulator holds here."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Sequence

from elf.overlay.ids import Contact
from elf.overlay.sim.checkers import check_settled, follow_routes, measure
from tests.sweep.checkers import check_counted, check_edges, check_multicast
from tests.system.cluster import wait_until
from tests.system.namespaces import hosts
from tests.system.nodes import NodeProcess, SeenAgents, ask_all, ended

FAN_IN_MAX = 16
#: Keys whose roots are looked for.
KEYS = 200
DEPTH_MAX = 7
#: By then every agent has refreshed its table at least once.
REFRESHED_S = 90.0


def settled(nodes: Sequence[NodeProcess], app: bytes, root: Contact | None = None) -> SeenAgents:
    """Wait until nothing is wrong with a tree, and return what was seen then."""
    wrong: list[str] = []

    def look() -> SeenAgents | None:
        seen = SeenAgents(nodes, app)
        wrong[:] = check_settled(seen, app, root) + check_edges(seen, app, FAN_IN_MAX)
        return None if wrong else seen

    try:
        found: SeenAgents = wait_until(look, "the tree settles")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *wrong])) from None
    return found


def test_sixty_four_processes_form_true_trees_count_exactly_and_repair_them(tmp_path: pathlib.Path) -> None:
    rng = random.Random(64)
    rendezvous, job = rng.randbytes(20), rng.randbytes(20)
    with ended([]) as nodes:
        nodes.append(NodeProcess("n0", {"bind": "127.0.0.1:0"}))
        join = [nodes[0].address]
        nodes += [NodeProcess(f"n{number}", {"bind": "127.0.0.1:0", "join": join}) for number in range(1, 64)]
        ask_all(nodes, "join_tree", app=rendezvous.hex())

        def flat() -> SeenAgents | None:
            now = settled(nodes, rendezvous)
            return now if measure(now, rendezvous).depth <= DEPTH_MAX else None

        # Who starts among the first knows only a few, and a tree of those may be deep; then its members go up.
        seen = wait_until(flat, "no member is deep down in the tree", REFRESHED_S)
        # All started at the same moment: whoever joined among the first finds the others at its next refresh.
        keys = [rng.randbytes(20) for _ in range(KEYS)]

        def all_routes_are_true() -> bool:
            routes = follow_routes(SeenAgents(nodes, rendezvous), keys)
            return (routes.false_roots, routes.misled) == (0, 0)

        wait_until(all_routes_are_true, "every agent's way toward every key ends at the true root", REFRESHED_S)

        # A job's tree: its root is recorded; what every agent seals is counted once.
        recorded = seen.closest(job).contact
        root = next(node for node in nodes if node.contact == recorded)
        ask_all(nodes, "join_tree", app=job.hex(), root=recorded.address)
        settled(nodes, job, recorded)
        produced: dict[str, bool] = {}
        for through in (1, 2):
            for node in nodes:
                items = [f"{node.name}-{through}"]
                produced.update(dict.fromkeys(items, True))
                node.ask("seal", app=job.hex(), through=through, items=items)

        def uncounted() -> list[str]:
            return check_counted(SeenAgents([root], job).machines[0].runtime, produced, complete=True)

        wait_until(lambda: not uncounted(), "everything is counted")
        for body in ("first", "second"):
            root.ask("multicast", app=job.hex(), body=body)

        def all_are_told() -> bool:
            told = SeenAgents(nodes, job)
            truth = [entry for key, entry in told.by_id[recorded.id].runtime.controls if key == job]
            return not check_multicast(told, job, truth, complete=True)

        wait_until(all_are_told, "all got both in order")

        # kill -9: the rendezvous root, a parent and four more; then all of them come back.
        place = {machine.contact.id: machine.tree(rendezvous) for machine in seen.up()}
        parents = [key for key, view in place.items() if view.children and view.role != "root" and key != recorded.id]
        lost = {seen.closest(rendezvous).contact.id, parents[0], *(node.contact.id for node in nodes[-4:])} - {
            recorded.id
        }
        struck = [node for node in nodes if node.contact.id in lost]
        for node in struck:
            node.kill()
        settled(nodes, rendezvous)
        settled(nodes, job, recorded)
        for node in struck:
            node.start()
        for node in struck:
            node.ask("join_tree", app=rendezvous.hex())
        settled(nodes, rendezvous)
        assert uncounted() == []


def test_twelve_hosts_some_deaf_to_others_end_up_in_one_tree(tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a" * 64 + "\n")
    secret.chmod(0o600)
    rng = random.Random(12)
    rendezvous, job = rng.randbytes(20), rng.randbytes(20)
    with hosts(12) as machines, ended([]) as nodes:
        join = [f"{machine.address}:4250" for machine in machines[:2]]
        for number, machine in enumerate(machines):
            settings = {"bind": f"{machine.address}:4250", "secret_file": str(secret), "join": join}
            nodes.append(NodeProcess(f"n{number}", settings, machine.before))
        ask_all(nodes, "join_tree", app=rendezvous.hex())
        seen = settled(nodes, rendezvous)
        recorded = seen.closest(job).contact
        ask_all(nodes, "join_tree", app=job.hex(), root=recorded.address)
        settled(nodes, job, recorded)
        produced: dict[str, bool] = {}

        def seal(through: int) -> None:
            for node in nodes:
                items = [f"{node.name}-{through}"]
                produced.update(dict.fromkeys(items, True))
                node.ask("seal", app=job.hex(), through=through, items=items)

        seal(1)
        # Both roots hear nothing of half of the others any more, whom they still reach.
        roots = {recorded.id, seen.closest(rendezvous).contact.id}
        deaf = [machine for machine, node in zip(machines, nodes, strict=True) if node.contact.id in roots]
        silent = [machine for machine in machines if machine not in deaf][::2]
        for machine in deaf:
            machine.deaf_to(*silent)
        lost = {f"{machine.address}:4250" for machine in silent}
        root_of = next(node for node in nodes if node.contact == recorded)
        wait_until(
            lambda: not lost & {child.address for child in SeenAgents([root_of], job).machines[0].tree(job).children},
            "the job's root takes those it does not hear for lost",
        )
        seal(2)
        for machine in deaf:
            machine.hear()
        settled(nodes, rendezvous)
        settled(nodes, job, recorded)
        seal(3)
        wait_until(
            lambda: not check_counted(SeenAgents([root_of], job).machines[0].runtime, produced, complete=True),
            "everything is counted once, what was sealed behind the cut too",
        )
