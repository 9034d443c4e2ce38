"""Whom certificates are for, in any spelling; and what stands in them that says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.ids import format_address
from elf.overlay.subject import Subject, split_place, subject, subject_of


def test_a_certificate_as_tls_describes_it_names_addresses_in_any_spelling() -> None:
    found = subject_of(
        {
            "subjectAltName": (
                ("DNS", "10.0.0.1"),
                ("IP Address", "0:0:0:0:0:0:0:1"),
                ("IP Address", "nonsense"),
                ("URI", "elf://[0:0::1]:4250"),
                ("URI", "elf://nonsense"),
                ("URI", "https://10.0.0.1:4250"),
            ),
            "serialNumber": "0A",
        }
    )
    assert found == Subject(frozenset({"::1"}), frozenset({"[::1]:4250"}), 10), "a name of another kind is no address"
    assert subject_of(None) == subject_of({}) == Subject(frozenset(), frozenset(), 0)


def test_who_is_named_with_a_port_is_there_and_nowhere_else() -> None:
    host, place = subject(["10.0.0.1"], [], 1), subject(["10.0.0.1"], ["elf://10.0.0.1:4250"], 1)
    assert host.doubt("10.0.0.1:4250") is host.doubt("10.0.0.1:1") is place.doubt("10.0.0.1:4250") is None
    assert place.doubt("10.0.0.1:4251") == "not valid for 10.0.0.1:4251"
    assert host.doubt("10.0.0.2:4250") == place.doubt("10.0.0.2:4250") == "not valid for 10.0.0.2"
    assert place.names("10.0.0.1:4250") and not place.names("10.0.0.1:4251") and not host.names("10.0.0.1:4250")
    # A place at a host that is not named is none: agents of the release before know hosts only.
    assert subject(["10.0.0.1"], ["elf://10.0.0.2:1"], 1).doubt("10.0.0.2:1") == "not valid for 10.0.0.2"


@given(st.ip_addresses(), st.integers(1, 65_535))
def test_what_is_written_is_read_again(address: object, port: int) -> None:
    place = format_address(str(address), port)
    host, _ = split_place(str(address))
    assert split_place(place) == (host, port) and split_place(host) == (host, None)
    assert subject([host], [f"elf://{place}"], 1).names(place)


@pytest.mark.parametrize("text", ["web1", "web1:4250", "10.0.0.1:0", "10.0.0.1:65536", "::1:", "[::1]", "10.0.0:1", ""])
def test_what_is_neither_address_nor_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no IP address, and no IP:PORT"):
        split_place(text)
