"""Words of members: what honest nodes make of claims stays believed, and nobody is named who has not spoken."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.overlay import messages
from elf.overlay.contract import NEVER, Commit, OverlaySettings, RollupState, RosterEntry, Trust
from elf.overlay.effects import ChildUp, ParentUp, RootChanged, Send
from elf.overlay.ids import Contact
from elf.overlay.keys import new_identity
from elf.overlay.messages import Announce, Claim, Contribution, Retire, Word
from elf.overlay.rollup import words
from elf.overlay.rollup.barrier import Barrier
from elf.overlay.rollup.claims import Bag
from elf.overlay.rollup.machine import Rollup
from elf.overlay.rollup.own import OwnSnapshots
from elf.overlay.rollup.words import Words, spoken
from tests.overlay.harness import APP, Machine, World
from tests.overlay.keyed import Keyed, key_of

AGENTS = ("a", "b", "c", "d")
KNOWN = {agent: key_of(agent).public for agent in AGENTS}
OTHER_APP = bytes(20)


def asking(app: bytes = APP) -> Words:
    """Return what a node that knows all keys asks."""
    return Words(app, "root", Keyed("root", KNOWN))


def said(agent: str, since: int, through: int, payload: bytes | None) -> Word:
    return spoken(Keyed(agent), APP, agent, since, through, payload)


def own(agent: str, since: int, through: int, payload: bytes | None) -> Claim:
    return Claim(since, through, (agent,), payload, (said(agent, since, through, payload),))


#: Of each agent: intervals that it seals, and whether there is data.
RUNS = st.fixed_dictionaries(
    {agent: st.dictionaries(st.integers(1, 8), st.booleans(), min_size=1, max_size=4) for agent in AGENTS}
)


def handed_up(agent: str, sealed: dict[int, bool]) -> list[Claim]:
    snapshots = OwnSnapshots(agent)
    for through in sorted(sealed):
        snapshots.add(NEVER, through, f"{agent}{through}".encode() if sealed[through] else None)
    mine = Words(APP, agent, Keyed(agent))
    return [mine.signed(claim) for claim in snapshots.due()]


@given(RUNS, st.randoms(use_true_random=False), st.lists(st.integers(0, 8), max_size=3))
def test_claims_stay_believed_through_every_merge_and_clip(
    runs: dict[str, dict[int, bool]], rng: random.Random, commits: list[int]
) -> None:
    """Two inner nodes and one above them, which hear everything in any order, with commits in between."""
    root, below, above = asking(), [Barrier(0), Barrier(0)], Barrier(0)
    sent = [(rng.randrange(2), claim) for agent in AGENTS for claim in handed_up(agent, runs[agent])]
    rng.shuffle(sent)
    committed = NEVER
    found: list[Claim] = []
    for at, claim in sent:
        if rng.random() < 0.3 and commits:
            committed = max(committed, commits.pop())
            for barrier in (*below, above):
                barrier.settle(committed)
        passed = below[at].add(claim.agents[0].encode(), claim)
        passed += merged(below[at], committed, rng)
        for each in passed:
            found.append(each)
            through = [*above.add(bytes([at]), each), *merged(above, committed, rng)]
            found += through
    assert all(root.believed(claim) == claim for claim in found)
    assert root.refused == 0


def merged(barrier: Barrier, committed: int, rng: random.Random) -> list[Claim]:
    """Let a barrier forward what it has, sometimes; now and then a payload does not merge."""
    if rng.random() < 0.5 or (choice := barrier.step(set(), 0)) is None:
        return []
    bad = tuple(position for position in range(len(choice.payloads)) if len(choice.payloads) > 1 and rng.random() < 0.1)
    good = [payload for position, payload in enumerate(choice.payloads) if position not in bad]
    return barrier.merged(b"".join(good) if good else None, bad, committed)


FORGERIES = {
    "no word": lambda claim: replace(claim, words=()),
    "no word of one": lambda claim: replace(claim, words=(None, *claim.words[1:])),
    "others' words": lambda claim: replace(claim, words=claim.words[::-1]),
    "a later interval": lambda claim: replace(claim, since=claim.through, through=claim.through + 1),
    "an earlier run": lambda claim: replace(claim, since=claim.since - 1),
    "another run in the word": lambda claim: replace(
        claim, words=tuple(replace(word, through=word.through + 1) for word in claim.words)
    ),
    "another digest": lambda claim: replace(
        claim, words=tuple(replace(word, digest=bytes(16)) for word in claim.words)
    ),
    "one more name": lambda claim: replace(claim, agents=(*claim.agents, "d"), words=(*claim.words, claim.words[0])),
}


@pytest.mark.parametrize("payload", [b"data", None])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_claim_names_nobody_without_a_word(forgery: str, payload: bytes | None) -> None:
    true = Claim(3, 5, ("a", "b"), payload, (said("a", 2, 5, payload), said("b", 3, 5, payload)))
    forged = FORGERIES[forgery](true)
    node = asking()
    assert node.believed(true) == true
    believed = node.believed(forged)
    assert node.refused == 1
    if payload is not None or forgery not in ("no word of one", "an earlier run", "one more name"):
        assert believed is None, "what is counted of whom is not to be seen in a payload"
    else:
        assert believed is not None
        assert set(believed.agents) == {"no word of one": {"b"}, "an earlier run": {"a"}}.get(forgery, {"a", "b"})
        assert asking().believed(believed) == believed


def test_a_claim_without_data_or_with_that_of_one_is_wholly_proven() -> None:
    node, word = asking(), said("a", 1, 2, b"data")
    assert node.believed(Claim(1, 2, ("a",), None, (word,))) is None, "it had data"
    assert node.believed(Claim(1, 2, ("a",), b"other", (word,))) is None
    assert node.believed(Claim(1, 2, ("a",), b"data", (said("a", 1, 2, None),))) is None, "it had none"
    assert node.believed(Claim(1, 2, ("a",), b"data", (said("a", 1, 3, b"data"),))) is None, "nor at this interval"
    with_idle = Claim(1, 2, ("a", "b"), b"data", (word, said("b", 0, 9, b"later")))
    assert node.believed(with_idle) == with_idle
    assert node.believed(replace(with_idle, payload=b"date")) is None
    of_two = Claim(1, 2, ("a", "b"), b"whatever", (word, said("b", 0, 2, b"b")))
    assert node.believed(of_two) == of_two, "sums keep no signatures"


def test_a_word_is_of_one_job() -> None:
    claim = own("a", 1, 2, b"data")
    assert asking().believed(claim) == claim
    assert asking(OTHER_APP).believed(claim) is None


def test_of_whom_no_key_is_known_no_word_is_asked() -> None:
    node = Words(APP, "root", Keyed("root", {"a": KNOWN["a"]}))
    claim = Claim(1, 2, ("a", "old"), b"data", (said("a", 1, 2, b"data"), None))
    assert node.believed(claim) == claim
    silent = Claim(1, 2, ("old",), None)
    assert node.believed(silent) == silent
    assert Words(APP, "root", None).believed(own("a", 1, 2, b"x")) == own("a", 1, 2, b"x")


def test_a_root_commits_no_interval_that_nobody_can_have_sealed() -> None:
    claim = own("a", 1, 1 << 40, None)
    assert asking().believed(claim) == claim
    assert asking().believed(claim, at_root=True) is None
    rollup = node_with_child()
    rollup.on_edge(RootChanged(True), 0)
    rollup.on_message(CHILD, Contribution(APP, 1, claim), 0)
    rollup.on_message(CHILD, Contribution(APP, 1, own("b", 1, 2, None)), 0)
    assert rollup.ledger is not None
    assert rollup.ledger.bag.agents() == {"b"}


def announced(agent: str, *, by: str = "", settled: int = 1, app: bytes = APP) -> Announce:
    return Words(app, agent, Keyed(by or agent)).announced(Announce(app, agent, settled, 5, False))


def test_an_announcement_is_its_agents_own() -> None:
    node = Words(APP, "root", Keyed("root"))
    assert node.hears(Announce(APP, "a", 1, 5, False)), "of a release without keys"
    assert node.hears(announced("a"))
    for forged in (
        announced("a", by="rogue"),
        Announce(APP, "a", 1, 5, False),
        replace(announced("a"), settled=9),
        replace(announced("a"), sealed=9),
        replace(announced("a"), fresh=True),
        replace(announced("a"), agent="b"),
    ):
        assert not node.hears(forged)
    assert node.hears(announced("a", settled=2))
    assert node.believed(Claim(1, 2, ("a",), None)) is None, "from now on it is asked for its word"
    assert not asking().hears(announced("a", by="rogue")), "the runtime knows better"


def test_whose_name_follows_from_its_key_wins_over_whoever_was_there_first() -> None:
    agent, secret = new_identity(random.Random(1))
    mine = Keyed(agent)
    mine._key = words_key = type(mine._key)(secret)
    mine.public = words_key.public
    for known in ({}, {agent: key_of("rogue").public}):
        node = Words(APP, "root", Keyed("root", known))
        node.learn(agent, key_of("rogue").public)
        assert node.hears(Words(APP, agent, mine).announced(Announce(APP, agent, 1, 5, False)))
        claim = Words(APP, agent, mine).signed(Claim(1, 2, (agent,), None))
        assert node.believed(claim) == claim


def test_a_good_bye_is_its_agents_own_and_to_one_root() -> None:
    retire = Words(APP, "a", Keyed("a")).leaving(Retire(APP, "a", 7))
    assert asking().lets_go(retire, 7)
    assert not asking().lets_go(retire, 8)
    assert not asking().lets_go(Retire(APP, "a", 7), 7)
    assert not asking().lets_go(replace(retire, agent="b"), 7)
    assert asking().lets_go(Retire(APP, "old", 0), 7)
    assert not asking().lets_go(replace(retire, number=1), 7) and not asking().lets_go(replace(retire, sealed=9), 7)


def test_a_good_bye_that_is_played_again_sends_nobody_away() -> None:
    """Neither one that was heeded, nor one that was kept back until its agent was here again."""
    mine, node = Words(APP, "a", Keyed("a")), asking()
    first, second = (mine.leaving(Retire(APP, "a", 7, sealed=5, number=number)) for number in (1, 2))
    assert node.lets_go(first, 7)
    assert not node.lets_go(first, 7)
    assert node.lets_go(second, 7), "it may come back and go again"
    kept = mine.leaving(Retire(APP, "a", 7, sealed=4, number=3))
    assert node.hears(announced("a")), "which has sealed 5"
    assert not node.lets_go(kept, 7)
    assert node.lets_go(mine.leaving(Retire(APP, "a", 7, sealed=5, number=4)), 7)


def test_good_byes_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "GONE_MAX", 2)
    mine, node = Words(APP, "a", Keyed("a")), asking()
    assert all(node.lets_go(mine.leaving(Retire(APP, "a", 7, number=number)), 7) for number in range(5))
    assert len(node._gone) == 2


def test_what_announcements_bring_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "KEYS_MAX", 2)
    node = Words(APP, "root", Keyed("root"))
    assert all(node.hears(announced(agent)) for agent in "abc")
    assert len(node._keys) == 2


CHILD, PARENT = Contact.at("10.0.0.1", 1), Contact.at("10.0.0.1", 2)


def node_with_child() -> Rollup:
    rollup = Rollup(APP, "m", OverlaySettings(), random.Random(1), Keyed("m", KNOWN))
    rollup.on_edge(ChildUp(CHILD, 1), 0)
    return rollup


def test_a_parent_passes_on_what_it_believes_only() -> None:
    rollup = node_with_child()
    rollup.on_edge(ParentUp(PARENT, 1), 0)
    rollup.on_message(CHILD, announced("a"), 0)
    rollup.on_message(CHILD, Contribution(APP, 1, Claim(1, 2, ("a", "b"), None, (said("a", 1, 2, None), None))), 0)
    sent = [each.message for each in rollup.on_tick(1_000_000) if isinstance(each, Send)]
    claims = [message.claim for message in sent if isinstance(message, Contribution)]
    claims += [claim for claim in rollup.barrier.kept if claim not in claims]
    assert [claim.agents for claim in claims] == [("a",)]
    assert rollup.on_message(CHILD, announced("b", by="rogue"), 0) == []


def test_a_root_asks_for_the_words_of_its_roster_whoever_is_down() -> None:
    rollup = node_with_child()
    rollup.words = Words(APP, "m", Keyed("m"))
    rollup.state = RollupState(1, {"a": RosterEntry(NEVER, key=KNOWN["a"]), "old": RosterEntry(NEVER)})
    bag = rollup.barrier.bag
    bag.add(CHILD.id, Claim(1, 2, ("a",), None))
    bag.add(CHILD.id, Claim(1, 2, ("old",), None))
    rollup.on_edge(RootChanged(True), 0)
    assert rollup.ledger is not None
    assert rollup.ledger.bag.agents() == {"old"}
    assert rollup.words.refused == 1


def test_the_roster_keeps_keys_through_commits_and_retirement() -> None:
    rollup = node_with_child()
    rollup.on_edge(RootChanged(True), 0)
    assert rollup.ledger is not None
    rollup.on_message(CHILD, announced("a", settled=NEVER), 0)
    rollup.ledger.add(CHILD.id, own("b", NEVER, 2, None))
    assert [rollup.ledger.step(at_ms) is None for at_ms in (1 << 40, 1 << 41)] == [True, False], "it is waited for"
    first = rollup.ledger.merged(None, ())
    rollup.ledger.durable()
    assert first.state.roster["a"].key == KNOWN["a"]
    rollup.ledger.retire("a", named=True)
    rollup.ledger.add(CHILD.id, own("b", 2, 3, None))
    assert rollup.ledger.step(1 << 41) is not None
    second = rollup.ledger.merged(None, ())
    rollup.ledger.durable()
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(second.state), type=RollupState)
    assert state.retired["a"].key == KNOWN["a"]
    rollup.on_message(CHILD, announced("a"), 0)
    assert rollup.ledger.roster["a"].key == KNOWN["a"]


class RogueMachine(Machine):
    """A member, the rogue, which says anything of others that it can make, along with what it ought to."""

    world: RogueWorld

    def trust(self) -> Trust | None:
        return super().trust() if self.world.are_asked else None

    def rave(self) -> None:
        """Hand up a claim of others, or speak in their name."""
        rollup = self.app.rollup if self.app is not None else None
        if rollup is None or rollup._parent is None:
            return
        rng, world = self.world.rng, self.world
        seen = [claim for claims in rollup.barrier.bag.edges.values() for claim in claims] + rollup.barrier.kept
        world.heard.update({(agent, word): None for claim in seen for agent, word in claim.spoken()})
        others = [machine.name for machine in world.machines if machine is not self]
        names = tuple(rng.sample(others, rng.randint(1, len(others))))
        since = rollup.committed + rng.randint(0, 1)
        claim = Claim(
            since, since + rng.randint(1, 4), names, rng.choice([None, None, b'["x#9@1"]']), self._words(names)
        )
        forged: Sequence[messages.TreeMessage] = [
            Contribution(APP, rollup._parent.epoch, claim),
            Contribution(APP, rollup._parent.epoch, claim),
            Retire(APP, names[0], rollup.term, bytes(64)),
            Words(APP, names[0], Keyed(self.name)).announced(Announce(APP, names[0], since, since + 9, False)),
            messages.Presence(APP, names, rng.random() < 0.5),
        ]
        world.send(self, rollup._parent.parent, rng.choice(forged))

    def _words(self, names: tuple[str, ...]) -> tuple[Word | None, ...]:
        rng = self.world.rng
        heard = {agent: word for agent, word in self.world.heard if rng.random() < 0.5}
        mine = tuple(heard.get(name) or spoken(Keyed(self.name), APP, name, 0, 1 << 20, None) for name in names)
        return rng.choice([mine, ()])


class RogueWorld(World):
    """Machines of which one is rogue; no commit may name who has not sealed what it covers."""

    def __init__(self, count: int, seed: int, *, are_asked: bool = True) -> None:
        self.are_asked = are_asked
        #: What agents have said that the rogue has heard of.
        self.heard: dict[tuple[str, Word], None] = {}
        super().__init__(count, seed, root=0)
        self.rogue = count - 1

    def new_machine(self, index: int) -> Machine:
        return RogueMachine(self, index)

    def check_commit(self, machine: Machine, commit: Commit) -> None:
        named = [self.machines[int(agent[1:])] for agent in commit.reported]
        assert not [each.name for each in named if each.index != self.rogue and each.store.sealed < commit.through]
        assert commit.previous == (machine.store.commits[-1].through if machine.store.commits else NEVER)

    def run(self) -> None:
        self.start()
        for machine in self.machines:
            if machine.app is None:
                self.restart(machine)
        sealed = dict.fromkeys(range(len(self.machines)), 0)
        for _ in range(4_000):
            self.step()
            index = self.rng.choice(sorted(sealed))
            if self.rng.random() < 0.04:
                sealed[index] += 1
                self.machines[index].seal(sealed[index], [])
            rogue = self.machines[self.rogue]
            assert isinstance(rogue, RogueMachine)
            if self.rng.random() < 0.05:
                rogue.rave()
            if self.rng.random() < 0.001:
                self.cut(*self.rng.sample(range(len(self.machines)), 2))


@pytest.mark.parametrize("seed", range(24))
def test_whatever_a_rogue_says_no_commit_names_who_did_not_hand_up(seed: int) -> None:
    world = RogueWorld(3 + seed % 6, seed)
    world.run()
    assert world.machines[0].store.commits, "and work goes on"


def test_a_rogue_has_its_way_where_nobody_is_asked_for_words() -> None:
    fooled = 0
    for seed in range(6):
        try:
            RogueWorld(4, seed, are_asked=False).run()
        except AssertionError:
            fooled += 1
    assert fooled == 6


def test_a_bag_keeps_words_in_the_order_of_their_agents() -> None:
    bag = Bag()
    bag.add(b"1", own("b", 1, 3, b"b"))
    bag.add(b"2", own("a", 1, 4, b"a"))
    bag.add(b"3", Claim(1, 3, ("old",), None))
    choice = bag.choose(3)
    agents = choice.agents()
    spoken_of = choice.words_of(agents)
    assert agents == ("a", "b", "old")
    assert spoken_of == (said("a", 1, 4, b"a"), said("b", 1, 3, b"b"), None)
