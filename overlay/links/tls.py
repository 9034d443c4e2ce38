"""TLS 1.3 on links, both ends with certificates of the cluster's CA.

Owns the contexts of one agent, who may be at the other end, and what is said of a refusal. DESIGN section 8.
"""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from elf.overlay.contract import OverlaySettings
from elf.overlay.errors import OverlayError, RemoteProtocolError
from elf.overlay.subject import Subject

if TYPE_CHECKING:
    from elf.overlay.links.notary import Notary


@dataclass(frozen=True)
class Tls:
    """The two contexts of one agent, and its certificate."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    notary: Notary | None = None

    @property
    def proves_place(self) -> bool:
        """Whether our certificate names our place: to who has such a one, too, it takes the secret's place."""
        return self.notary is not None and bool(self.notary.certificate)

    def check(self, peer: Subject, address: str, *, needs_place: bool) -> None:
        """Check the certificate of who is, or says it is, the agent at an address.

        Raises:
            RemoteProtocolError: it is that of another, was revoked, or does not name the place, and there is no secret.
        """
        doubt = peer.doubt(address)
        if self.notary is not None and peer.serial in self.notary.revoked:
            doubt = "revoked"
        elif doubt is None and needs_place and not peer.places:
            doubt = f"not made for a port; `elf certgen --address {address}` makes one that needs no cluster secret"
        if doubt is not None:
            raise RemoteProtocolError(f"its certificate is {doubt}")

    @classmethod
    def load(cls, settings: OverlaySettings, address: str) -> Tls | None:
        """Read the files that the settings name; None without certificates.

        Raises:
            OverlayError: a file cannot be used, or others would refuse the certificate of `address`, our HOST:PORT.
        """
        if not settings.tls_cert_file:
            return None
        from elf.overlay.links.certificates import Authority, Holder, check_own
        from elf.overlay.links.notary import Notary, read_revoked

        check_own(settings.tls_cert_file, settings.tls_ca_file, address, datetime.datetime.now(datetime.UTC))
        _check_mode(settings.tls_key_file)
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (server, client):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file, password=_no_password)
                context.load_verify_locations(settings.tls_ca_file)
            except (OSError, ValueError) as error:
                raise OverlayError(
                    f"{settings.tls_key_file}: this key does not fit {settings.tls_cert_file}: {refusal(error)}"
                ) from error
        holder = Holder(settings.tls_cert_file, settings.tls_key_file)
        revoked = read_revoked(settings.tls_revoked_file)
        return cls(server, client, Notary(holder, Authority(settings.tls_ca_file), address, revoked))


#: What OpenSSL's names for what goes wrong between agents mean.
_REASONS = {
    "HTTP_REQUEST": "it speaks without",
    "WRONG_VERSION_NUMBER": "it speaks without",
    "RECORD_LAYER_FAILURE": "it speaks without",
    "TLSV1_ALERT_UNKNOWN_CA": "it refuses our certificate, which its CA has not signed",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refuses our certificate, which has expired",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate of ours",
}


def is_refusal(error: BaseException) -> bool:
    """Tell whether a connection failed because one end refuses the other, not because nobody answers."""
    return is_hang_up(error) or isinstance(_cause(error), ssl.SSLError)


def is_hang_up(error: BaseException) -> bool:
    """Tell whether the other end went away without a word: it refuses us, or it is being stopped."""
    return isinstance(_cause(error), aiohttp.ServerDisconnectedError | ConnectionResetError)


def refusal(error: BaseException) -> str:
    """Return why a connection could not be opened, in few words."""
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS with it: {_REASONS.get(cause.reason or '', cause.reason or str(cause))}"
    if is_hang_up(cause):
        return "it hangs up without a word; where one end has certificates (overlay.tls_cert_file), both need them"
    return str(cause) or type(cause).__name__


def _cause(error: BaseException) -> BaseException:
    # aiohttp wraps both.
    cause: BaseException = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    return cause


def _check_mode(key_file: str) -> None:
    try:
        mode = Path(key_file).stat().st_mode
    except OSError as error:
        raise OverlayError(f"{key_file}: this key cannot be read: {error.strerror}") from None
    if mode & 0o007:
        raise OverlayError(f"{key_file}: other users of this machine can read this key; run `chmod 600 {key_file}`")


def _no_password() -> bytes:
    raise ValueError("it is encrypted, and there is nobody to ask for its password")
