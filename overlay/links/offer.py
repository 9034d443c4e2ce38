"""What two agents may speak with each other: each end of a link offers a range of versions, both take the newest.

A release speaks its own version and the one before, so that a cluster is upgraded agent by agent, and back. Pure.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from elf.overlay.errors import UnsupportedVersionError

FEATURES_MAX = 64
Version: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=255)]
#: A word of a peer that is shown to people: nothing but what names of releases are made of.
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9A-Za-z.+_-]*$")]
Features: TypeAlias = Annotated[tuple[Word, ...], msgspec.Meta(max_length=FEATURES_MAX)]


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """What one agent speaks.

    `oldest` and `newest`: versions of frames and messages. `features`: kinds of messages, sent to none but agents that
    name them. `release`: of the program, for people.
    """

    oldest: Version
    newest: Version
    features: Features = ()
    release: Word = ""

    def __str__(self) -> str:
        """Return it in words."""
        spoken = f"version {self.newest}" if self.oldest == self.newest else f"versions {self.oldest} to {self.newest}"
        return f"{spoken} (release {self.release or 'unknown'})"


def agreed(mine: Offer, theirs: Offer) -> int:
    """Return the version that both ends of a link speak: the newest that both know.

    Raises:
        UnsupportedVersionError: there is none; the text says who has to be upgraded.
    """
    version = min(mine.newest, theirs.newest)
    if version >= max(mine.oldest, theirs.oldest):
        return version
    older = "the other agent" if theirs.newest < mine.newest else "this agent"
    raise UnsupportedVersionError(
        f"it speaks {theirs}, this agent {mine}: upgrade {older}, release by release, none skipped"
    )
