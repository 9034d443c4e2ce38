"""IP addresses made less exact: cut to a prefix, or replaced by a keyed hash. Column-wise, on distinct values only.

A value may be one address, with brackets, port or zone, or a list of them as proxies write it. What is no address is
null afterwards: a host name says more than an address, and nothing may pass because it was not understood.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import polars as pl

from elf.agents.sources.privacy.siphash import hash_texts

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_PLAIN_IPV4 = rf"^{_IPV4}$"
_IPV4_PORT = rf"^({_IPV4})(?::[0-9]+)?$"
_PORT = r"^(?:[0-9.]+|\[[^\]]*\]):([0-9]+)$"
#: Lists of proxies have commas; where a request was redirected within nginx its servers have colons between them.
_COLON = r"\s+:\s+"
_BETWEEN = rf",|{_COLON}"
_COLON_MARK = "\x1f"
#: Of servers, what is neither address nor name of a host: `lambda`, the name of a group whose servers are all down.
_WORD = r"^[a-z][a-z_-]*$"
_IPV4_TAIL = rf":({_IPV4})$"
#: What stands before an IPv4 address that is written as an IPv6 one, in 24 hexadecimal digits: mapped and translated
#: (RFC 4291, 2765), through NAT64 (RFC 6052), and, unless it is a small number, compatible.
_EMBEDDING = ("0" * 20 + "ffff", "0" * 16 + "ffff0000", "0064ff9b" + "0" * 16)
_COMPATIBLE = "0" * 24
#: 6to4 (RFC 3056): the IPv4 address follows at once.
_6TO4 = "2002"
_IPV6_GROUPS = r"^[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*$|^$"
#: An IPv6 address in full, in hexadecimal digits, rounded up to words of 8 bytes; IPv4 ones are shorter.
_HASHED_BYTES = 32


class Anonymiser(msgspec.Struct, frozen=True):
    """How addresses are made less exact: prefixes in bits, of the lengths that `elf.agents.settings.config` allows."""

    ipv4_prefix: int = 24
    ipv6_prefix: int = 48
    #: With a key of 16 bytes addresses become hashes, and prefixes do not matter.
    key: bytes | None = None

    def column(self, addresses: pl.Series, *, with_ports: bool = False) -> pl.Series:
        """Anonymise a column of text; the same address becomes the same text everywhere.

        Ports are left out but for `with_ports`: the port of a client says more about it than its prefix.
        """
        distinct = addresses.unique().drop_nulls()
        if distinct.is_empty():
            return addresses
        plain = distinct.str.contains(_PLAIN_IPV4)
        simple, others = distinct.filter(plain), distinct.filter(~plain)
        old, new = [simple], [self._ipv4(simple)]
        if others.len():
            old.append(others)
            new.append(self._others(others, with_ports))
        table = pl.DataFrame({"old": pl.concat(old), "new": pl.concat(new)})
        joined = addresses.to_frame("old").join(table, on="old", how="left", maintain_order="left")
        return joined["new"].alias(addresses.name)

    def _ipv4(self, addresses: pl.Series) -> pl.Series:
        if self.key is not None:
            return self._hashed(addresses)
        kept = self.ipv4_prefix // 8
        parts = rf"^({_OCTET}(?:\.{_OCTET}){{{kept - 1}}})\..*$"
        return addresses.str.replace(parts, "${1}" + ".0" * (4 - kept))

    def _hashed(self, addresses: pl.Series) -> pl.Series:
        assert self.key is not None
        return pl.Series(addresses.name, hash_texts(self.key, addresses.to_list(), _HASHED_BYTES), dtype=pl.String)

    def _others(self, values: pl.Series, with_ports: bool) -> pl.Series:
        """Anonymise values that are more than a plain IPv4 address, or none: each part of a list by itself."""
        lists = values.str.contains(_BETWEEN)
        if not lists.any():
            return self._parts(values, with_ports)
        alone = values.set(lists, None)
        parts = (
            values.filter(lists)
            .str.replace_all(_COLON, f",{_COLON_MARK}")
            .to_frame("part")
            .with_row_index("row")
            .with_columns(pl.col("part").str.split(","))
            .explode("part", empty_as_null=True)
        )
        before = pl.when(parts["part"].str.starts_with(_COLON_MARK)).then(pl.lit(" : ")).otherwise(pl.lit(", "))
        made = self._parts(parts["part"].str.strip_chars_start(_COLON_MARK), with_ports)
        joined = (
            parts.with_columns((before + made).alias("part"))
            .group_by("row", maintain_order=True)
            .agg(pl.col("part").drop_nulls().str.join("").str.replace("^(?:, | : )", ""))
            .select(pl.when(pl.col("part") != "").then("part"))
            .to_series()
        )
        return self._parts(alone, with_ports).scatter(lists.arg_true(), joined)

    def _parts(self, values: pl.Series, with_ports: bool) -> pl.Series:
        """Anonymise values that are one address each, or none."""
        part = pl.col("part")
        bare = part.str.to_lowercase().str.strip_chars(" \t\"'")
        port = bare.str.extract(_PORT)
        bare = pl.coalesce(bare.str.extract(r"^\[([^\]]*)\](?::[0-9]+)?$"), bare).str.replace("%.*$", "")
        parts = values.to_frame("part").with_columns(bare.alias("part"), port.alias("port"))
        tail = part.str.extract(_IPV4_TAIL)
        digits = _ipv6_digits(pl.when(tail.is_not_null()).then(part.str.replace(_IPV4_TAIL, ":0:0")).otherwise(part))
        parts = parts.with_columns(digits=digits, tail=tail)
        parts = parts.with_columns(v4=pl.coalesce(part.str.extract(_IPV4_PORT), _embedded_ipv4()))
        is_v6 = pl.col("v4").is_null() & pl.col("tail").is_null()
        parts = parts.with_columns(v6=pl.when(is_v6).then("digits"))
        v4, v6 = self._known(parts["v4"], self._ipv4), self._known(parts["v6"], self._ipv6)
        if not with_ports:
            return pl.select(pl.coalesce(v4, v6).alias(values.name)).to_series()
        word = parts.select(pl.when(part.str.contains(_WORD)).then("part").alias("word")).to_series()
        made = pl.DataFrame([v4.alias("v4"), v6.alias("v6"), parts["port"], word])
        bracketed = pl.col("v6") if self.key is not None else "[" + pl.col("v6") + "]"
        v4_port, v6_port = (each + ":" + pl.col("port") for each in (pl.col("v4"), bracketed))
        return made.select(pl.coalesce(v4_port, v6_port, "v4", "v6", "word").alias(values.name)).to_series()

    def _known(self, column: pl.Series, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
        known = column.is_not_null()
        return column.scatter(known.arg_true(), change(column.filter(known))) if known.any() else column

    def _ipv6(self, digits: pl.Series) -> pl.Series:
        """Write the first groups of addresses given as 32 hexadecimal digits."""
        if self.key is not None:
            return self._hashed(digits)
        groups = [
            pl.col("digits").str.slice(at, 4).str.replace("^0{1,3}", "") for at in range(0, self.ipv6_prefix // 4, 4)
        ]
        # As RFC 5952 writes it: the zeros behind the prefix are more than any within, and take in those before them.
        prefix = pl.concat_str(groups, separator=":").str.replace(r"(?:(?:^|:)0)+$", "")
        return digits.to_frame("digits").select(prefix + "::").to_series()


def _embedded_ipv4() -> pl.Expr:
    """Return the IPv4 address that `digits`, and their `tail` in dots, stand for; null if they are IPv6's own."""
    digits, before, tail = pl.col("digits"), pl.col("digits").str.slice(0, 24), pl.col("tail")
    is_compatible = (before == _COMPATIBLE) & (tail.is_not_null() | (digits.str.slice(24, 2) != "00"))
    last = pl.when(before.is_in(_EMBEDDING) | is_compatible).then(pl.coalesce(tail, _dotted(digits.str.slice(24, 8))))
    first = pl.when(digits.str.starts_with(_6TO4)).then(_dotted(digits.str.slice(4, 8)))
    return pl.coalesce(last, first)


def _dotted(digits: pl.Expr) -> pl.Expr:
    """Write 8 hexadecimal digits as an IPv4 address."""
    octets = [digits.str.slice(at, 2).str.to_integer(base=16).cast(pl.String) for at in range(0, 8, 2)]
    return pl.concat_str(octets, separator=".")


def _ipv6_digits(text: pl.Expr) -> pl.Expr:
    """Return the 32 hexadecimal digits of an IPv6 address in lower case; null if the text is none."""
    halves = text.str.splitn("::", 2).struct
    left, right = halves.field("field_0"), halves.field("field_1")
    left_digits, right_digits = _digits(left), _digits(right.fill_null(""))
    written = left_digits.str.len_bytes() + right_digits.str.len_bytes()
    valid = left.str.contains(_IPV6_GROUPS) & right.fill_null("").str.contains(_IPV6_GROUPS)
    fits = pl.when(right.is_null()).then(written == 32).otherwise(written <= 28)
    zeros = pl.lit("0" * 32).str.slice(0, 32 - written.cast(pl.Int64))
    return pl.when(valid & fits).then(pl.concat_str(left_digits, zeros, right_digits))


def _digits(groups: pl.Expr) -> pl.Expr:
    """Write groups between colons with four digits each, one after the other; "" for no group."""
    long_enough = groups.str.replace_all("([0-9a-f]+)", "000${1}")
    return long_enough.str.replace_all("[0-9a-f]*([0-9a-f]{4})(?::|$)", "${1}")
