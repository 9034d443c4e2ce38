"""Cluster certificates: what one must be, what its key may vouch for, and the making of a CA and of what it signs.

Owns their contents: signed by the cluster's CA, in time, valid for the address that others are told. Loaded only where
certificates are used; how they are used on links is `elf.overlay.links.tls`'s. DESIGN 8.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from elf.overlay.errors import OverlayError
from elf.overlay.ids import format_address
from elf.overlay.subject import SCHEME, Subject, split_place, subject

#: Certificates begin a little before they are made: clocks of two machines differ.
SKEW = datetime.timedelta(hours=1)
#: Certificates of others that are kept read and checked.
KNOWN_MAX = 1_024


def check_own(cert_file: str, ca_file: str, address: str, now: datetime.datetime) -> None:
    """Check that other agents will accept a certificate.

    Args:
        cert_file: PEM file of the certificate.
        ca_file: PEM file of the cluster's CA.
        address: HOST:PORT that others reach us at.
        now: the time of day, with time zone.

    Raises:
        OverlayError: they will not, or a file cannot be read; the operator's fault.
    """
    certificate, authority = _read(cert_file), _read(ca_file)
    if (doubt := bearer_of(certificate).doubt(address)) is not None:
        raise OverlayError(f"{cert_file}: this certificate is {doubt}, the address of this agent")
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin <= now <= end:
        raise OverlayError(f"{cert_file}: this certificate is valid from {begin} to {end}; now it is {now:%F %H:%M}")
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception as error:  # InvalidSignature and more, by kind of key: all mean the same here
        raise OverlayError(f"{cert_file}: this certificate is not signed by the CA in {ca_file}") from error


class Authority:
    """The cluster's CA, asked about statements that agents have signed with the keys of their certificates.

    Args:
        ca_file: its certificate, PEM; while it is exchanged for another, both.

    Raises:
        OverlayError: the file cannot be read.
    """

    def __init__(self, ca_file: str) -> None:
        self._authorities = _read_all(ca_file)
        #: Asked for again with every change of a record, and every datagram; what strangers send is not kept.
        self._checked: dict[bytes, x509.Certificate] = {}

    def bearer(self, certificate: bytes, at_ms: int) -> Subject | None:
        """Return whose a certificate is, DER; None if it is none of ours, or not valid at a time, in ms since 1970."""
        known = self._known(certificate)
        return None if known is None or not _is_valid(known, at_ms) else bearer_of(known)

    def is_signed(self, certificate: bytes, message: bytes, signature: bytes) -> bool:
        """Tell whether a message was signed with the key of one of our certificates, DER."""
        known = self._known(certificate)
        return known is not None and _is_signed(known, signature, message)

    def doubt(self, certificate: bytes, signature: bytes, message: bytes, address: str, at_ms: int) -> str | None:
        """Return why a statement is not vouched for, None if it is.

        Args:
            certificate: of whoever made it, DER.
            signature: of it, with the certificate's key.
            message: the statement.
            address: HOST:PORT that it is made at.
            at_ms: when, in ms since 1970.
        """
        known = self._known(certificate)
        if known is None:
            return "its certificate is none of this cluster's authority"
        if (doubt := bearer_of(known).doubt(address)) is not None:
            return f"its certificate is {doubt}"
        if not _is_valid(known, at_ms):
            return f"its certificate is not valid on {_moment(at_ms):%F}"
        return None if _is_signed(known, signature, message) else "it is not signed with its certificate's key"

    def _known(self, certificate: bytes) -> x509.Certificate | None:
        found = self._checked.get(certificate) or self._issued(certificate)
        if found is not None and certificate not in self._checked:
            if len(self._checked) >= KNOWN_MAX:
                del self._checked[next(iter(self._checked))]
            self._checked[certificate] = found
        return found

    def _issued(self, certificate: bytes) -> x509.Certificate | None:
        """Return a certificate if we have issued it; some 0.3 ms."""
        for authority in self._authorities:
            with contextlib.suppress(Exception):  # as in `check_own`; whoever sent it may have sent anything
                found = x509.load_der_x509_certificate(certificate)
                found.verify_directly_issued_by(authority)
                return found
        return None


class Holder:
    """Signs with the key of a certificate.

    Args:
        cert_file: PEM file of the certificate.
        key_file: PEM file of its key.

    Raises:
        OverlayError: a file cannot be read, or the key is of a kind that signs nothing.
    """

    def __init__(self, cert_file: str, key_file: str) -> None:
        certificate = _read(cert_file)
        #: What others are shown, DER, and whose it is.
        self.certificate = certificate.public_bytes(serialization.Encoding.DER)
        self.subject = bearer_of(certificate)
        try:
            key = serialization.load_pem_private_key(Path(key_file).read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise OverlayError(f"{key_file}: this key cannot be read: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey):
            raise OverlayError(
                f"{key_file}: agents sign with a key of the kinds EC, RSA or Ed25519, and this is another"
            )
        self._key = key

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        match self._key:
            case ec.EllipticCurvePrivateKey() as key:
                return key.sign(message, ec.ECDSA(hashes.SHA256()))
            case rsa.RSAPrivateKey() as key:
                return key.sign(message, padding.PKCS1v15(), hashes.SHA256())
            case key:
                return key.sign(message)


def endorse(cert_file: str, key_file: str, message: bytes) -> tuple[bytes, bytes]:
    """Return a certificate, DER, and the signature of a message with its key; raises what `Holder` does."""
    holder = Holder(cert_file, key_file)
    return holder.certificate, holder.sign(message)


def serial_of(cert_file: str) -> int:
    """Return the serial number of a certificate, by which it is revoked.

    Raises:
        OverlayError: the file cannot be read.
    """
    return _read(cert_file).serial_number


def make_authority(now: datetime.datetime, days: int) -> tuple[bytes, bytes]:
    """Return a new CA: certificate and private key as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "elf cluster CA")])
    public = key.public_key()
    builder = (
        _builder(name, name, public, now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    return _pem(builder.sign(key, hashes.SHA256()), key)


def make_certificate(
    ca_cert: bytes, ca_key: bytes, addresses: Sequence[str], now: datetime.datetime, days: int
) -> tuple[bytes, bytes]:
    """Return a new node certificate, signed by a CA: certificate and private key as PEM.

    Args:
        ca_cert: the CA's certificate as PEM.
        ca_key: its key as PEM.
        addresses: what the node is reached at: IP addresses, which are good for any port, or IP:PORT.
        now: the time of day, with time zone.
        days: how long it is valid; never longer than its CA.

    Raises:
        OverlayError: an address is none, or the CA cannot be used; the operator's fault.
    """
    try:
        places = [split_place(address) for address in addresses]
    except ValueError as error:
        raise OverlayError(f"{error}; certificates are made for these") from error
    names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(host)) for host in dict(places)]
    names += [
        x509.UniformResourceIdentifier(SCHEME + format_address(host, port)) for host, port in places if port is not None
    ]
    try:
        authority, signer = x509.load_pem_x509_certificate(ca_cert), serialization.load_pem_private_key(ca_key, None)
    except (ValueError, TypeError) as error:
        raise OverlayError(f"the CA cannot be used: {error}") from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey) or signer.public_key() != authority.public_key():
        raise OverlayError("the CA's key is not that of its certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"elf agent {addresses[0]}")])
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    days = min(days, (authority.not_valid_after_utc - now).days)
    builder = (
        _builder(subject, authority.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return _pem(builder.sign(signer, hashes.SHA256()), key)


def _is_signed(certificate: x509.Certificate, signature: bytes, message: bytes) -> bool:
    try:
        match certificate.public_key():
            case ec.EllipticCurvePublicKey() as public:
                public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
            case rsa.RSAPublicKey() as public:
                public.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
            case ed25519.Ed25519PublicKey() as public:
                public.verify(signature, message)
            case _:
                return False
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
    return True


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs_certificates, crl_sign=signs_certificates, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[bytes, bytes]:
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return certificate.public_bytes(serialization.Encoding.PEM), private


def _read(file: str) -> x509.Certificate:
    return _read_all(file)[0]


def _read_all(file: str) -> list[x509.Certificate]:
    """Return the certificates in a file, one at least."""
    try:
        return x509.load_pem_x509_certificates(Path(file).read_bytes())
    except OSError as error:
        raise OverlayError(f"{file}: this certificate cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise OverlayError(f"{file}: this is no certificate in PEM form: {error}") from None


@functools.lru_cache(maxsize=KNOWN_MAX)
def bearer_of(certificate: x509.Certificate) -> Subject:
    """Return whom a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return subject((), (), certificate.serial_number)
    hosts = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return subject(hosts, names.get_values_for_type(x509.UniformResourceIdentifier), certificate.serial_number)


def _is_valid(certificate: x509.Certificate, at_ms: int) -> bool:
    return certificate.not_valid_before_utc <= _moment(at_ms) <= certificate.not_valid_after_utc


def _moment(at_ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
