"""What an agent shows of itself and asks of others: its key, and the cluster's authority where it has certificates."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from elf.agents.settings.config import OverlaySection
from elf.agents.wire.credentials import Endorsement
from elf.agents.wire.introductions import Doubt, Endorse, introduced
from elf.agents.wire.records import Member
from elf.overlay.keys import SecretKey

if TYPE_CHECKING:
    from elf.overlay.links.certificates import Authority


class Passport:
    """One agent's key, its certificate and its authority; files are read when they are needed first.

    Args:
        secret: the agent's key.
        overlay: names the certificate's files; without them there is no authority, and keys are all.
    """

    def __init__(self, secret: bytes, overlay: OverlaySection) -> None:
        self.key = SecretKey(secret)
        self._overlay = overlay

    def renew(self, overlay: OverlaySection) -> None:
        """Go on with other files of the certificate, or with what these hold by now."""
        self._overlay = overlay
        self.__dict__.pop("_authority", None)

    def introduced(self, member: Member, version: int) -> Member:
        """Return this agent's introduction as of a version of its record, signed."""
        return introduced(member, version, self.key, self._endorse)

    @property
    def doubt(self) -> Doubt | None:
        """What asks the authority; None where there is none."""
        return self._doubt if self._overlay.tls_ca_file else None

    @property
    def _endorse(self) -> Endorse | None:
        return self._endorsed if self._overlay.tls_cert_file else None

    def _endorsed(self, message: bytes) -> Endorsement:
        from elf.overlay.links.certificates import endorse

        return Endorsement(*endorse(self._overlay.tls_cert_file, self._overlay.tls_key_file, message))

    @functools.cached_property
    def _authority(self) -> Authority:
        from elf.overlay.links.certificates import Authority

        return Authority(self._overlay.tls_ca_file)

    def _doubt(self, endorsement: Endorsement, message: bytes, address: str, at_ms: int) -> str | None:
        return self._authority.doubt(endorsement.certificate, endorsement.signature, message, address, at_ms)
