"""URLs against Spark's, which are Java's: escapes of all bytes, whole and torn, and the parts of odd addresses."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import polars as pl

from elf.agents.language.dialect import parse_statement
from elf.agents.language.expressions import compile_expression
from elf.agents.language.functions.url_escapes import decode
from elf.agents.language.query import parse_query
from elf.agents.language.scopes import RowScope
from elf.agents.language.types import SqlType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Bytes where UTF-8 takes a turn.
EDGES = b"\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5\xff"
#: What addresses are made of; java.net.URI reads each prefix another way.
BEGINS = [
    "",
    "http:",
    "HTTPS:",
    "a+b-c.1:",
    "1a:",
    ":",
    "mailto:",
    "//",
    "///",
    "http://",
    "http:///",
    "http:////",
    "/",
]
PARTS = [
    *(
        "/",
        "?",
        "#",
        ":",
        "@",
        "[",
        "]",
        "&",
        "=",
        "%",
        "%41",
        "%zz",
        "%4",
        " ",
        "|",
        "\\",
        '"',
        "<",
        "^",
        "`",
        "{",
        "\0",
    ),
    *(
        "h",
        "a.b",
        "a.b.",
        "1.2.3.4",
        "1.2.3.256",
        "01.2.3.4",
        "[::1]",
        "[::1",
        "[fe80::1%eth0]",
        "-a",
        "a-",
        "a_b",
        "a.1b",
    ),
    *(
        ":80",
        ":",
        ":x",
        "u:p@",
        "u@v@",
        "q=1",
        "q=",
        "é",
        "\u00a0",
        "\u2028",
        "\x7f",
        "\x85",
        "+",
        ",",
        ";",
        "$",
        "!",
        "*",
        "'",
        "(",
    ),
]
ASKED = ["HOST", "PATH", "QUERY", "REF", "PROTOCOL", "AUTHORITY"]
BROKEN = ["%", "%4", "%zz", "%%41", "%+1", "%-1", "%-0", "% 1", "%é", "%4é", "%g0", "%0g"]


def piece(chosen: random.Random) -> str:
    def escaped(data: bytes) -> str:
        return "".join(chosen.choice(["%{:02x}", "%{:02X}"]).format(byte) for byte in data)

    kind = chosen.randrange(8)
    if kind < 2:
        return chosen.choice(["a", "/x?y=", "+", "é", "\U0001f600", "=", "&", " ", "%2B", "%20", "%25", "%0a", "%00"])
    if kind < 4:  # characters, of which the end may be missing
        data = chr(chosen.choice([chosen.randrange(0x80, 0x800), chosen.randrange(0xE000), chosen.randrange(0x110000)]))
        encoded = data.encode("utf-8", "surrogatepass")
        return escaped(encoded[: chosen.randint(1, len(encoded))] if kind == 2 else encoded)
    if kind < 6:
        return escaped(bytes(chosen.choices(EDGES, k=chosen.randint(1, 4))))
    if kind < 7:
        return escaped(chosen.randbytes(chosen.randint(1, 3)))
    return chosen.choice(["x", chosen.choice(BROKEN)])


def test_escapes_are_decoded_as_spark_does(spark: SparkSession) -> None:
    chosen = random.Random(1)
    texts = ["".join(piece(chosen) for _ in range(chosen.randint(1, 6))) for _ in range(6_000)]
    rows = spark.createDataFrame(list(enumerate(texts)), "i INT, u STRING")
    truth = [row[0] for row in rows.orderBy("i").selectExpr("try_url_decode(u)").collect()]
    for text, one, other in zip(texts, decode(pl.Series(texts)), truth, strict=True):
        assert one == other, f"{text!r}: {one!r}, in Spark {other!r}"
    known = [text for text in truth if text is not None]
    assert len(texts) / 2 < len(known) < len(texts) and sum("\ufffd" in text for text in known) > 1_000


def test_parts_are_those_of_spark(spark: SparkSession) -> None:
    chosen = random.Random(2)
    texts = sorted(
        {
            chosen.choice(BEGINS) + "".join(chosen.choices(PARTS, k=chosen.choice([0, 1, 1, 2, 2, 3, 4, 6])))
            for _ in range(12_000)
        }
    )
    asked = [f"parse_url(u, '{part}')" for part in ASKED] + ["parse_url(u, 'QUERY', 'q')"]
    rows = spark.createDataFrame(list(enumerate(texts)), "i INT, u STRING").coalesce(1)
    truth = rows.orderBy("i").selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(asked))).collect()
    scope = RowScope(parse_query("SELECT count(*) FROM rows"), {"u": SqlType.STRING})
    found = [
        compile_expression(parse_statement(f"SELECT {text}\nFROM rows").expressions[0], scope).expr for text in asked
    ]
    ours = pl.DataFrame({"u": texts}).select(expr.alias(f"c{number}") for number, expr in enumerate(found))
    wrong = [
        f"{ask} of {text!r}: {one!r}, in Spark {other!r}"
        for text, row, known in zip(texts, ours.iter_rows(), truth, strict=True)
        for ask, one, other in zip(asked, row, known, strict=True)
        if one != other
    ]
    assert not wrong, "\n".join([str(len(wrong)), *wrong[:40]])
    assert sum(row[1] is not None for row in truth) > 1_000
