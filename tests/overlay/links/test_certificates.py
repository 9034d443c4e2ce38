"""Statements that a cluster's authority vouches for: by holders of its certificates, at their address, in time."""

from __future__ import annotations

import datetime
import ipaddress
import pathlib
from typing import TypeAlias

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ed25519, rsa
from cryptography.x509.oid import NameOID

from elf.overlay.errors import OverlayError
from elf.overlay.links.certificates import Authority, endorse, make_authority, make_certificate

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
NOW_MS = int(NOW.timestamp() * 1000)
DAY_MS = 86_400_000
HOST = "10.0.0.1"
Key: TypeAlias = rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | dsa.DSAPrivateKey


def write(folder: pathlib.Path, **files: bytes) -> list[str]:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [str(folder / name) for name in files]


@pytest.fixture
def ca() -> tuple[bytes, bytes]:
    return make_authority(NOW, 100)


def test_it_vouches_for_what_was_signed_at_the_certificates_address_while_it_is_valid(
    tmp_path: pathlib.Path, ca: tuple[bytes, bytes]
) -> None:
    cert, key = make_certificate(*ca, [HOST, "fe80::1"], NOW, 10)
    files = write(tmp_path, ca=ca[0], cert=cert, key=key)
    authority = Authority(files[0])
    certificate, signature = endorse(files[1], files[2], b"statement")
    assert authority.doubt(certificate, signature, b"statement", f"{HOST}:4250", NOW_MS) is None
    assert authority.doubt(certificate, signature, b"statement", "[fe80::1]:4250", NOW_MS) is None
    for message, address, at_ms, why in (
        (b"another", f"{HOST}:4250", NOW_MS, "it is not signed with its certificate's key"),
        (b"statement", "10.0.0.2:4250", NOW_MS, "its certificate is not valid for 10.0.0.2"),
        (b"statement", f"{HOST}:4250", NOW_MS + 11 * DAY_MS, "its certificate is not valid on 2026-06-12"),
        (b"statement", f"{HOST}:4250", NOW_MS - DAY_MS, "its certificate is not valid on 2026-05-31"),
    ):
        assert authority.doubt(certificate, signature, message, address, at_ms) == why


def test_certificates_of_others_are_none(tmp_path: pathlib.Path, ca: tuple[bytes, bytes]) -> None:
    other = make_authority(NOW, 100)
    cert, key = make_certificate(*other, [HOST], NOW, 10)
    files = write(tmp_path, ca=ca[0], cert=cert, key=key)
    authority = Authority(files[0])
    certificate, signature = endorse(files[1], files[2], b"statement")
    for found in (certificate, b"", b"\xff" * 300):
        why = authority.doubt(found, signature, b"statement", f"{HOST}:4250", NOW_MS)
        assert why == "its certificate is none of this cluster's authority"


def test_while_the_authority_is_exchanged_both_vouch(tmp_path: pathlib.Path, ca: tuple[bytes, bytes]) -> None:
    old = make_authority(NOW, 100)
    both = Authority(*write(tmp_path, both=ca[0] + old[0]))
    for each in (ca, old):
        cert, key = make_certificate(*each, [HOST], NOW, 10)
        certificate, signature = endorse(*write(tmp_path, cert=cert, key=key), b"statement")
        assert both.doubt(certificate, signature, b"statement", f"{HOST}:4250", NOW_MS) is None


def issued(ca: tuple[bytes, bytes], key: Key) -> bytes:
    """Return a certificate of a CA for somebody's own key, as an operator's tools may make it."""
    authority = x509.load_pem_x509_certificate(ca[0])
    signer = serialization.load_pem_private_key(ca[1], None)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "web1")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
    )
    return built.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def pem(key: Key) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_keys_of_other_kinds_sign_too(tmp_path: pathlib.Path, ca: tuple[bytes, bytes], kind: str) -> None:
    key = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ed25519.Ed25519PrivateKey.generate()
    files = write(tmp_path, ca=ca[0], cert=issued(ca, key), key=pem(key))
    certificate, signature = endorse(files[1], files[2], b"statement")
    authority = Authority(files[0])
    assert authority.doubt(certificate, signature, b"statement", f"{HOST}:4250", NOW_MS) is None
    why = authority.doubt(certificate, signature[:-1] + b"\0", b"statements", f"{HOST}:4250", NOW_MS)
    assert why == "it is not signed with its certificate's key"


def test_a_key_that_cannot_sign_is_refused(tmp_path: pathlib.Path, ca: tuple[bytes, bytes]) -> None:
    cert, _ = make_certificate(*ca, [HOST], NOW, 10)
    strange = pem(dsa.generate_private_key(2048))
    files = write(tmp_path, cert=cert, garbage=b"no key", strange=strange)
    with pytest.raises(OverlayError, match="garbage: this key cannot be read"):
        endorse(files[0], files[1], b"")
    with pytest.raises(OverlayError, match="strange: agents sign with a key of the kinds EC, RSA or Ed25519"):
        endorse(files[0], files[2], b"")
    with pytest.raises(OverlayError, match="gone: this certificate cannot be read"):
        endorse(str(tmp_path / "gone"), str(tmp_path / "gone"), b"")
