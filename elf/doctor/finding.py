"""One thing that is wrong: what, why it matters, and the command that mends it. Pure."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Check(StrEnum):
    """What was looked at; scripts may rely on these words."""

    SETTINGS = "settings"
    AGENT = "agent"
    LOG = "log"
    FORMAT = "format"
    PORT = "port"
    CLOCK = "clock"
    DISK = "disk"
    SECRET = "secret"
    CERTIFICATE = "certificate"
    LINK = "link"
    VERSION = "version"
    MAJORITY = "majority"
    JOB = "job"
    ARCHIVE = "archive"
    FILES = "files"
    STALE = "stale"


class Finding(msgspec.Struct, frozen=True):
    """A fault.

    Attributes:
        check: what was looked at.
        what: is wrong, in one sentence.
        why: it matters, for people who never had it; the same text for each finding of a kind, and with no data.
        mend: a command, or what to do where none can do it.
    """

    check: Check
    what: str
    why: str
    mend: str
