"""What an agent shows of itself: with certificates its key and address are vouched for, without them its key is all."""

from __future__ import annotations

import datetime
import pathlib

from elf.agents.host.passport import Passport
from elf.agents.settings.config import OverlaySection
from elf.agents.wire.introductions import fault
from elf.agents.wire.records import Member
from elf.overlay.keys import SecretKey, name_of
from elf.overlay.links.certificates import make_authority, make_certificate

SECRET = b"s" * 32
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
NOW_MS = int(NOW.timestamp() * 1000)
MEMBER = Member(agent_id=name_of(SecretKey(SECRET).public), name="web1", address="10.0.0.1:4250", sources=())


def certified(folder: pathlib.Path, ca: tuple[bytes, bytes], host: str) -> OverlaySection:
    folder.mkdir()
    for name, data in zip(("cert", "key"), make_certificate(*ca, [host], NOW, 10), strict=True):
        (folder / name).write_bytes(data)
    (folder / "ca").write_bytes(ca[0])
    names = {f"tls_{name}_file": str(folder / name) for name in ("cert", "key", "ca")}
    return OverlaySection(**names)


def test_without_certificates_the_key_is_all() -> None:
    passport = Passport(SECRET, OverlaySection())
    introduced = passport.introduced(MEMBER, NOW_MS)
    assert introduced.signed is not None
    assert introduced.signed.endorsement is None
    assert passport.doubt is None
    assert fault(introduced, NOW_MS, None, NOW_MS) is None


def test_a_cluster_with_an_authority_believes_who_has_its_certificate_for_the_address(tmp_path: pathlib.Path) -> None:
    ca, other = make_authority(NOW, 100), make_authority(NOW, 100)
    mine = Passport(SECRET, certified(tmp_path / "mine", ca, "10.0.0.1"))
    host = Passport(b"h" * 32, certified(tmp_path / "host", ca, "10.0.0.2"))
    stranger = Passport(SECRET, certified(tmp_path / "stranger", other, "10.0.0.1"))
    plain = Passport(SECRET, OverlaySection())

    def believed(passport: Passport, member: Member) -> str | None:
        return fault(passport.introduced(member, NOW_MS), NOW_MS, None, NOW_MS, mine.doubt)

    assert believed(mine, MEMBER) is None
    assert believed(host, MEMBER) == "its certificate is not valid for 10.0.0.1"
    assert believed(stranger, MEMBER) == "its certificate is none of this cluster's authority"
    assert believed(plain, MEMBER) == "it comes without a certificate of this cluster's authority"
