"""Every question between agents, as bytes: the union of all that were declared, and nothing else.

Bodies are msgpack, decoded into these types and nothing else; bytes that fit none are a `Failure`, never an exception.
"""

from __future__ import annotations

import msgspec

from elf.agents.wire.agents import Introduce, ListJobs, ViewTree
from elf.agents.wire.application_messages import Ask, Letter
from elf.agents.wire.audits import IsShut, Recheck, Show, Shut
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.placement import Install, Weigh
from elf.agents.wire.purges import Purge
from elf.agents.wire.questions import Describe, Fate, Follow, Locate, OfSide, Query, Retire, Stop
from elf.agents.wire.replicas import Keep, KeepCheckpoint, Recall
from elf.agents.wire.root_groups import Enlist, Fetch
from elf.agents.wire.shares import Adopt, AskShare, LoadIntervals, Watch
from elf.agents.wire.sources import DescribeSource, Inspect, Spread
from elf.overlay.decoding import read_msgpack

AnyRequest = (
    Weigh
    | Install
    | Enlist
    | Fetch
    | Describe
    | Fate
    | Query
    | Follow
    | AskShare
    | Watch
    | OfSide
    | Stop
    | Retire
    | LoadIntervals
    | Amend
    | Adopt
    | Leap
    | Ask
    | Letter
    | Keep
    | KeepCheckpoint
    | Recall
    | Show
    | Recheck
    | Shut
    | IsShut
    | Locate
    | Spread
    | DescribeSource
    | Inspect
    | ListJobs
    | Introduce
    | ViewTree
    | Purge
)


def encode(message: AnyRequest) -> bytes:
    """Encode a request."""
    return msgspec.msgpack.encode(message)


def decode_request(body: bytes) -> AnyRequest:
    """Decode a request; raises msgspec.DecodeError (ValidationError among them) on anything else."""
    request: AnyRequest = read_msgpack(body, AnyRequest)
    return request
