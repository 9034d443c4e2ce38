"""One agent's certificate at work: it signs with its key, and tells whose the signatures of others are.

Owns what takes the cluster secret's place where certificates name the places of agents (`overlay.subject`): datagrams
are signed, and certificates that were revoked are none. Files are read once. The making of certificates is
`elf.overlay.links.certificates`'s. Loaded only where certificates are used.
"""

from __future__ import annotations

from pathlib import Path

from elf.overlay.errors import OverlayError
from elf.overlay.links.certificates import Authority, Holder
from elf.overlay.subject import Subject

#: A list of revoked certificates is read up to here: 10,000 of them with a comment each.
REVOKED_BYTES_MAX = 1 << 20


class Notary:
    """Signs for one agent, and checks what others have signed.

    Args:
        holder: our certificate.
        authority: the cluster's.
        address: ours, HOST:PORT.
        revoked: serial numbers of certificates that are worth nothing any more.
    """

    def __init__(self, holder: Holder, authority: Authority, address: str, revoked: frozenset[int]) -> None:
        self._holder = holder
        self._authority = authority
        self.revoked = revoked
        #: What others are shown, DER; empty if our certificate does not name our place, and cannot speak for it.
        self.certificate = holder.certificate if holder.subject.names(address) else b""

    def sign(self, message: bytes) -> bytes:
        """Return our signature of a message; some 40 us."""
        return self._holder.sign(message)

    def bearer(self, certificate: bytes, at_ms: int) -> Subject | None:
        """Return whose a certificate is, DER; None if it is not of this cluster, not valid then, or revoked."""
        found = self._authority.bearer(certificate, at_ms)
        return None if found is None or found.serial in self.revoked else found

    def is_signed(self, certificate: bytes, message: bytes, signature: bytes) -> bool:
        """Tell whether a message was signed with the key of a certificate that has a bearer; some 80 us."""
        return self._authority.is_signed(certificate, message, signature)


def read_revoked(file: str) -> frozenset[int]:
    """Read a list of revoked certificates: a serial number a line, hexadecimal, and what comes after `#` is comment.

    Raises:
        OverlayError: the file cannot be read, or a line of it is something else; the operator's fault.
    """
    if not file:
        return frozenset()
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(REVOKED_BYTES_MAX + 1)
    except OSError as error:
        raise OverlayError(f"{file}: the list of revoked certificates cannot be read: {error.strerror}") from None
    if len(data) > REVOKED_BYTES_MAX:
        raise OverlayError(
            f"{file}: a list of revoked certificates of more than {REVOKED_BYTES_MAX} bytes; use a new CA"
        )
    found = set()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        word = line.partition("#")[0].strip()
        if not word:
            continue
        try:
            found.add(int(word.replace(":", ""), 16))
        except ValueError:
            raise OverlayError(
                f"{file}:{number}: {word[:60]!r} is no serial number; `elf certgen --revoke` writes them, in base 16"
            ) from None
    return frozenset(found)
