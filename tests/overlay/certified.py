"""Agents with certificates: a cluster's authority, and what it issues."""

from __future__ import annotations

import datetime
from pathlib import Path

from elf.overlay.links.certificates import Authority, Holder, make_authority, make_certificate
from elf.overlay.links.notary import Notary


class Issuer:
    """A CA in a folder, whose certificates are valid from a day on."""

    def __init__(self, folder: Path, now: datetime.datetime) -> None:
        self.folder = folder
        self.now = now
        self.pair = make_authority(now, 3_650)
        folder.mkdir(exist_ok=True)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.pair[0])
        self._count = 0

    def issue(self, *addresses: str, days: int = 100) -> tuple[str, str]:
        """Return the files of a new certificate and its key."""
        self._count += 1
        files = []
        for part, data in zip(("cert", "key"), make_certificate(*self.pair, addresses, self.now, days), strict=True):
            file = self.folder / f"{self._count}-{part}.pem"
            file.write_bytes(data)
            file.chmod(0o600)
            files.append(str(file))
        return files[0], files[1]

    def settings(self, *addresses: str, days: int = 100) -> dict[str, str]:
        """Return settings with a new certificate."""
        cert, key = self.issue(*addresses, days=days)
        return {"tls_cert_file": cert, "tls_key_file": key, "tls_ca_file": str(self.ca)}

    def notary(self, address: str, *names: str, days: int = 100, revoked: frozenset[int] = frozenset()) -> Notary:
        """Return the notary of an agent at an address, whose certificate is for that unless others are named."""
        files = self.issue(*(names or (address,)), days=days)
        return Notary(Holder(*files), Authority(str(self.ca)), address, revoked)
