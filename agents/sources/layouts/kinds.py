"""Kinds of fields: what each holds, which type its column has, and what its values may begin with."""

from __future__ import annotations

import enum

from elf.agents.language.types import SqlType


class Kind(enum.IntEnum):
    """What a field holds; the grammar of each is in `elf.agents.sources.layouts.values`.

    The numbers are those of the kernel (`native/lines.h`).
    """

    WORD = 1
    QUOTED = 2
    QTEXT = 3
    QREQUEST = 4
    LOOSE = 5
    BRACED = 6
    IP = 7
    ADDR = 8
    HOST = 9
    ADDRESSES = 10
    UPSTREAMS = 11
    STATUSES = 12
    NUMBERS = 13
    IDENT = 14
    USER = 15
    REQUEST = 16
    METHOD = 17
    PROTOCOL = 18
    URI = 19
    QUERY = 20
    STATUS = 21
    INT = 22
    BYTES = 23
    NUMBER = 24
    DURATION = 25
    HEX = 26
    STREAM = 27
    PART = 28
    TIME = 29
    REST = 30
    TEXT = 31


#: By the word that layouts name a kind by; times are written `time:NOTATION`.
KINDS = {kind.name.lower(): kind for kind in Kind if kind is not Kind.TIME}

#: Types of the columns of kinds that are not text.
TYPES = {
    Kind.STATUS: SqlType.INT,
    Kind.INT: SqlType.BIGINT,
    Kind.BYTES: SqlType.BIGINT,
    Kind.NUMBER: SqlType.DOUBLE,
    Kind.DURATION: SqlType.DOUBLE,
}

#: Kinds of which nothing is no value: where it may stand, it is null.
NO_TEXTS = frozenset(
    (
        *(Kind.IP, Kind.ADDR, Kind.ADDRESSES, Kind.UPSTREAMS, Kind.STATUSES, Kind.NUMBERS, Kind.IDENT, Kind.METHOD),
        *(Kind.PROTOCOL, Kind.STATUS, Kind.INT, Kind.BYTES, Kind.NUMBER, Kind.DURATION, Kind.HEX),
    )
)

#: Items joined by commas or colons.
LISTS = frozenset({Kind.ADDRESSES, Kind.UPSTREAMS, Kind.STATUSES, Kind.NUMBERS})

#: Kinds that end before a port, which they must not swallow.
WITH_PORT = frozenset({Kind.IP, Kind.ADDR, Kind.HOST})

#: What a value of a kind always begins with, so that it may follow a field of one of these kinds with nothing between.
BEGINS = {
    Kind.QUERY: (b"?", frozenset({Kind.URI, Kind.WORD, Kind.QUOTED})),
    Kind.URI: (b"/", WITH_PORT),
    Kind.BRACED: (b"{", frozenset[Kind]()),
}

#: What a field of a kind holds, for people.
EXPECTED = {
    Kind.WORD: "a word",
    Kind.QUOTED: "a text",
    Kind.QTEXT: "a quoted text or -",
    Kind.QREQUEST: "a quoted request or -",
    Kind.LOOSE: "a text behind whose quote the rest fits",
    Kind.BRACED: "a text in braces",
    Kind.IP: "an IP address",
    Kind.ADDR: "an address or a full host name",
    Kind.HOST: "a host name",
    Kind.ADDRESSES: "one of a list of addresses",
    Kind.UPSTREAMS: "one of a list of upstreams",
    Kind.STATUSES: "one of a list of statuses",
    Kind.NUMBERS: "one of a list of numbers",
    Kind.IDENT: "- or an ident",
    Kind.USER: "a user name",
    Kind.REQUEST: "a request",
    Kind.METHOD: "a method",
    Kind.PROTOCOL: "a protocol",
    Kind.URI: "a path or an address",
    Kind.QUERY: "? and a query, or nothing",
    Kind.STATUS: "three digits or -",
    Kind.INT: "an integer or -",
    Kind.BYTES: "a number of bytes or -",
    Kind.NUMBER: "a number or -",
    Kind.DURATION: "a duration or -",
    Kind.HEX: "hexadecimal digits",
    Kind.STREAM: "stdout or stderr",
    Kind.PART: "P or F",
    Kind.TIME: "a time",
    Kind.REST: "anything",
    Kind.TEXT: "a text",
}
