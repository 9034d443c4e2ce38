"""Anonymised addresses are those of the standard library's networks, and nothing but an address passes."""

from __future__ import annotations

import ipaddress

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.settings.config import IPV4_PREFIXES, IPV6_PREFIXES
from elf.agents.sources.privacy.addresses import Anonymiser

KEY = bytes(range(16))
#: Of IPv6, where IPv4 addresses are, but for small numbers.
EMBEDDING = [ipaddress.IPv6Network(text) for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")]


def bare(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Take an IPv4 address out of the IPv6 one that it is written as."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.sixtofour is not None:
        return address.sixtofour
    is_embedded = int(address) >= 1 << 24 and any(address in network for network in EMBEDDING)
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_embedded else address


def test_ports_are_kept_where_they_are_servers() -> None:
    given_ = ["10.0.0.17:80", "[2001:db8::17]:443", "10.0.0.17", "2001:db8::17", "10.0.0.1:80, [::1]:81", "unix:/a:1"]
    column = pl.Series("ip", given_)
    wanted = ["10.0.0.0:80", "[2001:db8::]:443", "10.0.0.0", "2001:db8::", "10.0.0.0:80, [::]:81", None]
    assert Anonymiser().column(column, with_ports=True).to_list() == wanted
    assert Anonymiser().column(column).to_list() == ["10.0.0.0", "2001:db8::"] * 2 + ["10.0.0.0, ::", None]
    hashed, plain = (Anonymiser(key=KEY).column(column, with_ports=each).to_list() for each in (True, False))
    assert hashed[:2] == [f"{plain[0]}:80", f"{plain[1]}:443"] and hashed[2:4] == plain[:2] == plain[2:4]


v4 = st.ip_addresses(v=4)
#: With runs of zeros too, which are written in many ways.
v6 = st.one_of(
    st.ip_addresses(v=6),
    st.lists(st.sampled_from([0, 0, 1, 0xDB8, 0xFFFF]), min_size=8, max_size=8).map(
        lambda groups: ipaddress.IPv6Address(b"".join(group.to_bytes(2) for group in groups))
    ),
)


def anonymised(how: Anonymiser, *values: str | None) -> list[str | None]:
    return how.column(pl.Series("ip", values, dtype=pl.String)).to_list()


def network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, prefix: int) -> str:
    return str(ipaddress.ip_network((address, prefix), strict=False).network_address)


@settings(max_examples=60, deadline=None)
@given(st.lists(v4, max_size=20), st.sampled_from(IPV4_PREFIXES))
def test_ipv4_prefixes(addresses: list[ipaddress.IPv4Address], prefix: int) -> None:
    found = anonymised(Anonymiser(ipv4_prefix=prefix), *map(str, addresses))
    assert found == [network(address, prefix) for address in addresses]


@settings(max_examples=100, deadline=None)
@given(st.lists(v6, max_size=10), st.sampled_from(IPV6_PREFIXES))
def test_ipv6_prefixes_however_they_are_written(addresses: list[ipaddress.IPv6Address], prefix: int) -> None:
    plain = [address for address in addresses if bare(address) == address]
    how = Anonymiser(ipv6_prefix=prefix)
    wanted = [network(address, prefix) for address in plain]
    for written in (str, lambda address: address.exploded.upper()):
        found = anonymised(how, *map(written, plain))
        assert found == wanted, "as the standard library writes them, too"
    assert anonymised(how, *map(str, plain)) == anonymised(how, *(address.exploded for address in plain))


@settings(max_examples=40, deadline=None)
@given(st.lists(v4 | v6, min_size=2, max_size=20, unique=True))
def test_hashes_tell_addresses_apart_and_say_nothing_of_them(addresses: list[ipaddress.IPv4Address]) -> None:
    found = anonymised(Anonymiser(key=KEY), *map(str, addresses))
    assert len(set(found)) == len({bare(address) for address in addresses})
    assert all(len(each or "") == 16 and set(each or "") <= set("0123456789abcdef") for each in found)
    assert found != anonymised(Anonymiser(key=bytes(16)), *map(str, addresses))
    assert found == anonymised(Anonymiser(key=KEY), *(address.exploded for address in addresses))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("192.0.2.77:8080", "192.0.2.0"),
        ("[2001:db8:1:2::3]:443", "2001:db8:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:192.0.2.77", "192.0.2.0"),
        ("192.0.2.77, 10.1.2.3", "192.0.2.0, 10.1.2.0"),
        ("unknown, 192.0.2.77", "192.0.2.0"),
        ('"192.0.2.77"', "192.0.2.0"),
        ("p5de3f1.dip0.example.net", None),
        ("192.0.2.777", None),
        ("192.0.2", None),
        ("192.0.2.77.1", None),
        ("1::2::3", None),
        ("12345::", None),
        ("1:2:3:4:5:6:7", None),
        ("1:2:3:4:5:6:7:8:9", None),
        ("for=192.0.2.77;proto=http", None),
        ("192.0.2.77 ", "192.0.2.0"),
        ("", None),
        (None, None),
    ],
)
def test_ways_to_write_an_address(value: str | None, wanted: str | None) -> None:
    assert anonymised(Anonymiser(), value, "10.0.0.1") == [wanted, "10.0.0.0"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(st.sampled_from("0123456789abcdefg.:,[]% /"), max_size=30), min_size=1, max_size=10))
def test_only_what_is_understood_passes(values: list[str]) -> None:
    for value, found in zip(values, anonymised(Anonymiser(), *values), strict=True):
        for each in filter(None, (found or "").split(", ")):
            address = ipaddress.ip_address(each)
            assert network(address, 24 if address.version == 4 else 48) == str(address), value


@pytest.mark.parametrize("key", [None, b"0123456789abcdef"], ids=["prefix", "hash"])
@given(address=st.integers(1 << 24, (1 << 32) - 1), upper=st.booleans())
def test_an_ipv4_address_is_one_whatever_it_wears(key: bytes | None, address: int, upper: bool) -> None:
    plain = ipaddress.IPv4Address(address)
    high, low = address >> 16, address & 0xFFFF
    clothes = [
        *(f"{before}{plain}" for before in ("::ffff:", "0:0:0:0:0:ffff:", "::ffff:0:", "64:ff9b::", "::")),
        *(f"{before}{high:x}:{low:x}" for before in ("::ffff:", "::ffff:0:", "64:ff9b::", "::")),
        f"2002:{high:x}:{low:x}::1",
        f"2002:{high:04x}:{low:04x}:1:2:3:4:5",
        f"[::ffff:{plain}]:443",
        f"::ffff:{plain}%eth0",
    ]
    worn = [text.upper() if upper else text for text in clothes]
    values = pl.Series([str(plain), *worn])
    assert Anonymiser(key=key).column(values).n_unique() == 1


def test_ipv6_addresses_stay_what_they_are() -> None:
    values = pl.Series(["::1", "::", "2001:db8::1.2.3.4", "::ffff:1:2:3", "2003:1:2:3::"])
    assert Anonymiser().column(values).to_list() == ["::", "::", None, "::", "2003:1:2::"]


@pytest.mark.parametrize(
    ("value", "servers", "clients"),
    [
        (
            "10.0.0.1:80, 10.0.0.2:80 : 10.0.0.3:80",
            "10.0.0.0:80, 10.0.0.0:80 : 10.0.0.0:80",
            "10.0.0.0, 10.0.0.0 : 10.0.0.0",
        ),
        ("[2001:db8::7]:80 : 192.0.2.7:80", "[2001:db8::]:80 : 192.0.2.0:80", "2001:db8:: : 192.0.2.0"),
        ("backend, unknown.host : 192.0.2.7", "backend : 192.0.2.0", "192.0.2.0"),
        ("lambda", "lambda", None),
        ("backend-name", "backend-name", None),
        ("unix:/run/a.sock", None, None),
        ("web1.example", None, None),
        ("web1", None, None),
        (" : ", None, None),
    ],
)
def test_lists_of_servers_keep_their_colons_and_words_that_name_no_host(
    value: str, servers: str | None, clients: str | None
) -> None:
    column = pl.Series("upstream_addr", [value, "10.0.0.9:1"])
    assert Anonymiser().column(column, with_ports=True)[0] == servers
    assert Anonymiser().column(column)[0] == clients


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(v4, st.sampled_from([",", ", ", " : "])), min_size=1, max_size=6))
def test_a_list_of_servers_is_as_long_as_before(drawn: list[tuple[ipaddress.IPv4Address, str]]) -> None:
    text = "".join(f"{address}{between}" for address, between in drawn[:-1]) + str(drawn[-1][0])
    wanted = "".join(
        network(address, 24) + (" : " if ":" in between else ", ") for address, between in drawn[:-1]
    ) + network(drawn[-1][0], 24)
    assert Anonymiser().column(pl.Series("a", [text])).to_list() == [wanted]
