"""TLS 1.3 on links, both ends with certificates of the cluster's CA.

Owns the contexts of one agent, whether a certificate fits an address, and what is said of a refusal. DESIGN section 8.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from elf.overlay.contract import OverlaySettings
from elf.overlay.errors import OverlayError


@dataclass(frozen=True)
class Tls:
    """The two contexts of one agent."""

    server: ssl.SSLContext
    client: ssl.SSLContext

    @classmethod
    def load(cls, settings: OverlaySettings, host: str) -> Tls | None:
        """Read the files that the settings name; None without certificates.

        Raises:
            OverlayError: a file cannot be used, or others at `host`, our IP address, would refuse the certificate.
        """
        if not settings.tls_cert_file:
            return None
        from elf.overlay.links.certificates import check_own

        check_own(settings.tls_cert_file, settings.tls_ca_file, host, datetime.datetime.now(datetime.UTC))
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
        return cls(server, client)


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


def certifies(certificate: Mapping[str, Any] | None, host: str) -> bool:
    """Tell whether a verified certificate, as `ssl` describes it, is valid for an IP address."""
    wanted = ipaddress.ip_address(host)
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        try:
            if kind == "IP Address" and ipaddress.ip_address(value.strip()) == wanted:
                return True
        except ValueError:
            continue
    return False


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
