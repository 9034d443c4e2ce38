"""What members say of their own snapshots, signed: nobody is named in a claim without a word of its own. Pure.

A word is of a run: the member has no data in since < interval < through, and at `through` that of the digest, or none.
It holds for every claim within its run, however often that was merged, clipped or handed up by somebody else. What it
cannot say is that its data is in a merged payload: sums keep no signatures. So a claim without data is wholly proven,
one with the data of a single member too, and of any other only who had something to say.

A node asks for the words of members whose key it knows: from their announcements, which pass on their way to the root,
or from the runtime. Others belong to a release without keys. A claim with data that names somebody without a word is
refused as a whole, for what is counted of whom is not to be seen in it; one without data loses that name. Each node
checks what its children hand it, 140 us a word; so what one child forges costs nobody else of its parent's.
"""

from __future__ import annotations

import hashlib

import msgspec

from elf.overlay.contract import NEVER, Trust
from elf.overlay.keys import is_signed, message_of, name_of
from elf.overlay.messages import DIGEST_BYTES, Announce, Claim, Retire, Word

#: Most keys remembered that announcements brought.
KEYS_MAX = 1 << 16
#: Good-byes that are remembered, so that each counts once.
GONE_MAX = 4_096
_WORD, _ANNOUNCE, _RETIRE = b"elf word 1", b"elf announcement 1", b"elf leave 2"


def spoken(trust: Trust, app: bytes, agent: str, since: int, through: int, payload: bytes | None) -> Word:
    """Return an agent's word on its own snapshot. 45 us, and 1 ms a MiB."""
    digest = b"" if payload is None else _digest(payload)
    return Word(since, through, digest, trust.sign(_statement(app, agent, since, through, digest)))


def is_of(word: Word, payload: bytes) -> bool:
    """Tell whether a word is of this snapshot."""
    return word.digest == _digest(payload)


class Words:
    """The words of one job at one node: made for its own member, asked of all others.

    Args:
        app: the job's tree.
        agent: this node's.
        trust: its key, and others'; None: nobody signs, and nobody is asked to.
    """

    __slots__ = ("_gone", "_keys", "_sealed", "_trust", "agent", "app", "refused")

    def __init__(self, app: bytes, agent: str, trust: Trust | None) -> None:
        self.app = app
        self.agent = agent
        #: Claims and announcements of others that named somebody in vain.
        self.refused = 0
        self._trust = trust
        #: How far agents have said that they have sealed; and good-byes that were heeded, oldest first.
        self._sealed: dict[str, int] = {}
        self._gone: dict[bytes, None] = {}
        self._keys: dict[str, bytes] = {} if trust is None else {agent: trust.public}

    def signed(self, claim: Claim) -> Claim:
        """Return a claim of our own with our word."""
        if self._trust is None:
            return claim
        word = spoken(self._trust, self.app, self.agent, claim.since, claim.through, claim.payload)
        return msgspec.structs.replace(claim, words=(word,))

    def announced(self, announce: Announce) -> Announce:
        """Return an announcement of our own, signed."""
        if self._trust is None:
            return announce
        signature = self._trust.sign(_announcement(announce))
        return msgspec.structs.replace(announce, key=self._trust.public, signature=signature)

    def leaving(self, retire: Retire) -> Retire:
        """Return our own good-bye, signed."""
        if self._trust is None:
            return retire
        return msgspec.structs.replace(retire, signature=self._trust.sign(_leave(retire)))

    def learn(self, agent: str, key: bytes) -> None:
        """Take note of a member's key, unless another one is known."""
        if key and len(self._keys) < KEYS_MAX:
            self._keys.setdefault(agent, key)

    def hears(self, announce: Announce) -> bool:
        """Tell whether an announcement is that of its agent, and take note of its key."""
        if self._trust is None:
            return True
        agent, key = announce.agent, announce.key
        known = self._key_of(agent)
        if not key and known is None:
            return True
        is_its = known in (None, key) or name_of(key) == agent
        if not is_its or not is_signed(key, _announcement(announce), announce.signature):
            self.refused += 1
            return False
        if agent in self._keys or len(self._keys) < KEYS_MAX:
            self._keys[agent] = key
            self._sealed[agent] = max(self._sealed.get(agent, NEVER), announce.sealed)
        return True

    def lets_go(self, retire: Retire, term: int) -> bool:
        """Tell whether a good-bye is that of its agent, to the root of this term, and not one of before it came back.

        Each counts once, and none does of an agent that has sealed more since, as it has said itself.
        """
        key = None if self._trust is None else self._key_of(retire.agent)
        if key is None:
            return True
        is_new = retire.signature not in self._gone and retire.sealed >= self._sealed.get(retire.agent, NEVER)
        if is_new and retire.term == term and is_signed(key, _leave(retire), retire.signature):
            self._gone[retire.signature] = None
            while len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
            return True
        self.refused += 1
        return False

    def believed(self, claim: Claim, *, at_root: bool = False) -> Claim | None:
        """Return what is to be believed of another's claim; None for nothing.

        Args:
            claim: it.
            at_root: this is the job's root, which commits no interval that nobody can have sealed yet.
        """
        if self._trust is None:
            return claim
        if at_root and not self._trust.may_have_ended(self.app, claim.through):
            self.refused += 1
            return None
        words = claim.words or (None,) * len(claim.agents)
        pairs = list(zip(claim.agents, words, strict=True))
        good = [(agent, word) for agent, word in pairs if self._holds(claim, agent, word)]
        fits = _fits(claim, words)
        if fits and len(good) == len(pairs):
            return claim
        self.refused += 1
        if claim.payload is not None or not good or not fits:
            return None
        return Claim(
            claim.since, claim.through, tuple(agent for agent, _ in good), None, tuple(word for _, word in good)
        )

    def _holds(self, claim: Claim, agent: str, word: Word | None) -> bool:
        """Tell whether an agent has said what a claim says of it."""
        key = self._key_of(agent)
        if key is None:
            return True
        if word is None or not word.since <= claim.since < claim.through <= word.through:
            return False
        if claim.payload is None and word.digest and word.through == claim.through:
            return False
        return is_signed(key, _statement(self.app, agent, word.since, word.through, word.digest), word.signature)

    def _key_of(self, agent: str) -> bytes | None:
        assert self._trust is not None
        heard, told = self._keys.get(agent), self._trust.key_of(agent)
        if heard is None or told is None or heard == told:
            return heard or told
        return heard if name_of(heard) == agent else told


def _fits(claim: Claim, words: tuple[Word | None, ...]) -> bool:
    """Tell whether a claim's payload can be what its words say, as far as they say all of it."""
    if claim.payload is None or None in words:
        return True
    digests = [word.digest for word in words if word is not None and word.through == claim.through and word.digest]
    return len(digests) > 1 or digests == [_digest(claim.payload)]


def _digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=DIGEST_BYTES).digest()


def _statement(app: bytes, agent: str, since: int, through: int, digest: bytes) -> bytes:
    return message_of(_WORD, app, agent.encode(), _number(since), _number(through), digest)


def _announcement(announce: Announce) -> bytes:
    numbers = (_number(each) for each in (announce.settled, announce.sealed, announce.fresh))
    return message_of(_ANNOUNCE, announce.app, announce.agent.encode(), *numbers)


def _leave(retire: Retire) -> bytes:
    numbers = (_number(each) for each in (retire.term, retire.sealed, retire.number))
    return message_of(_RETIRE, retire.app, retire.agent.encode(), *numbers)


def _number(value: int) -> bytes:
    return int(value).to_bytes(8, "big", signed=True)
