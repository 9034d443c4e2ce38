from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elf.agents.sources.layouts import hosts

GROUPS = st.text("0123456789abcdefABCDEF", max_size=5)
ADDRESSES = (
    st.ip_addresses().map(str)
    | st.text("0123456789abcdef:.", max_size=24)
    | st.lists(GROUPS, max_size=9).map(":".join)
    | st.tuples(st.lists(GROUPS, max_size=8).map(":".join), st.ip_addresses(v=4).map(str)).map(":".join)
)


def is_one(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@given(ADDRESSES)
@example("::")
@example(":1:2:3:4:5:6:7:8")
@example("1::2::3")
@example("::ffff:1.2.3.4")
@example("01.2.3.4")
def test_an_address_is_what_the_standard_library_takes_for_one(text: str) -> None:
    assert (hosts.is_ipv4(text.encode()) or hosts.is_ipv6(text.encode())) == is_one(text)


@pytest.mark.parametrize("text", ["fe80::1%eth0", "[::1]", "192.0.2.1"])
def test_zones_and_brackets_are_of_an_address(text: str) -> None:
    assert hosts.is_ip(text.encode())


@pytest.mark.parametrize("text", ["[192.0.2.1]", "fe80::1%", "[::1", "::1]", "", "1.2.3", "1.2.3.4.5", "1.2.3.256"])
def test_what_only_looks_like_an_address_is_none(text: str) -> None:
    assert not hosts.is_ip(text.encode())


@pytest.mark.parametrize("text", ["gw.example.net", "localhost", "a_b.example.", "xn--a.example"])
def test_a_full_name_has_a_dot(text: str) -> None:
    assert hosts.is_full_name(text.encode())


@pytest.mark.parametrize("text", ["torn192.0.2.1", "example", "-a.example", "a.example-", "1.2.3.4", "a:b.c", "a..9"])
def test_a_torn_address_is_no_name(text: str) -> None:
    assert not hosts.is_full_name(text.encode())


@given(st.text("x^&$1.:[]", max_size=6))
def test_what_a_client_wrote_holds_no_part_of_an_address(text: str) -> None:
    assert not (hosts.is_no_host(text.encode()) and set(text) & set("1.:[]"))


@pytest.mark.parametrize("text", ["192.0.2.1:80", "[::1]:80", "unix:/tmp/a", "unknown", "localhost", "a.example:8080"])
def test_a_peer_may_have_a_port(text: str) -> None:
    assert hosts.is_peer(text.encode()) and hosts.is_upstream(b"tcp://" + text.encode())
    assert hosts.is_upstream(b"backend") and not hosts.is_peer(b"backend")
