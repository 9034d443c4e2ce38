"""What lists and counts are wrapped in when an agent answers them."""

from __future__ import annotations

import msgspec

from elf.client.results import AuditEntry, Job, Member, Version


class Jobs(msgspec.Struct):
    """The answer of `GET /v1/jobs`."""

    jobs: list[Job]


class Members(msgspec.Struct):
    """The answer of `GET /v1/members`."""

    members: list[Member]


class Versions(msgspec.Struct):
    """The answer of `GET /v1/jobs/.../versions`."""

    versions: list[Version]


class Accepted(msgspec.Struct):
    """The answer of `POST /v1/ingest/...`: so many events, a line each."""

    accepted: int


class Entries(msgspec.Struct):
    """The answer of `GET /v1/audit`."""

    entries: list[AuditEntry]
