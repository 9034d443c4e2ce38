"""Ids: stable values (other agents compute the same), separation of names, the XOR metric."""

from __future__ import annotations

import doctest
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf.overlay.ids
from elf.overlay.ids import (
    PARTITIONS_MAX,
    Contact,
    app_id,
    distance,
    node_id,
    parse_address,
    partition_id,
    prefix_bits,
    source_id,
)

ids = st.binary(min_size=20, max_size=20)
names = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), min_size=1, max_size=12)


def test_doctests() -> None:
    assert doctest.testmod(elf.overlay.ids).failed == 0


def test_node_id_is_sha1_of_the_address_text() -> None:
    assert node_id("127.0.0.1", 4250) == hashlib.sha1(b"127.0.0.1:4250").digest()
    assert node_id("2001:DB8::0:1", 4250) == hashlib.sha1(b"[2001:db8::1]:4250").digest()
    assert node_id("::ffff:127.0.0.1", 4250) == node_id("127.0.0.1", 4250)


def test_app_id_is_frozen() -> None:
    assert app_id("micro", "shop").hex() == hashlib.sha1(b"micro\x00shop").hexdigest()
    assert app_id("ab", "c") != app_id("a", "bc")


@given(names, names, names, names)
def test_app_ids_differ_when_the_pair_differs(a: str, b: str, c: str, d: str) -> None:
    assert (app_id(a, b) == app_id(c, d)) == ((a, b) == (c, d))


@given(names, names)
def test_sources_never_share_a_key_with_jobs(name: str, creator: str) -> None:
    assert source_id(creator) != app_id(name, creator)


@pytest.mark.parametrize(("name", "creator"), [("", "a"), ("a", ""), ("a\x00b", "c")])
def test_illegal_parts_are_refused(name: str, creator: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of an id"):
        app_id(name, creator)


@given(ids, ids, ids)
def test_xor_is_a_metric(a: bytes, b: bytes, c: bytes) -> None:
    assert distance(a, a) == 0
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, c) <= distance(a, b) + distance(b, c)
    assert prefix_bits(a, a) == 160
    assert prefix_bits(a, c) >= min(prefix_bits(a, b), prefix_bits(b, c))


def test_contact_address() -> None:
    assert Contact.at("10.0.0.1", 7).address == "10.0.0.1:7"
    assert Contact.at("::1", 7).address == "[::1]:7"
    assert Contact.at("[::1]", 7) == Contact.at("0:0::1", 7)
    assert Contact.at("::1", 7).genuine
    assert not Contact(bytes(20), "::1", 7).genuine


@pytest.mark.parametrize("text", ["::1:7", "host", "host:", ":7", "host:x", "host:70000", "[]:7", "host:-1", "host:²"])
def test_bad_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "web-1.example"])
def test_addresses_round_trip(host: str) -> None:
    assert parse_address(Contact.at(host, 4250).address) == (host, 4250)


def test_partitions_have_keys_of_their_own_and_the_first_is_the_jobs() -> None:
    tree = app_id("words", "shop")
    keys = [partition_id(tree, partition) for partition in range(100)]
    assert keys[0] == tree
    assert len(set(keys)) == 100
    assert partition_id(tree, 7).hex() == hashlib.sha1(b"\x00partition\x00" + tree + b"\x00\x00\x00\x07").hexdigest()
    assert not set(keys[1:]) & {partition_id(app_id("words", "shop2"), partition) for partition in range(100)}
    for tree_key, partition in ((tree, -1), (tree, PARTITIONS_MAX), (tree[:19], 1)):
        with pytest.raises(ValueError, match="no partition"):
            partition_id(tree_key, partition)
