from __future__ import annotations

import pytest

from elf.agents.language.types import SqlType
from elf.agents.sources.inference import infer_columns

SAMPLE = b"""{"ts":"2026-01-01T00:00:00Z","n":1,"x":1,"b":true,"mixed":1,"o":{"a":1},"empty":null}
{"n":2,"x":1.5,"b":false,"mixed":"a","o":null}
not json
"""


def test_types_are_those_that_every_value_fits() -> None:
    inferred = infer_columns(SAMPLE, ["ts", "n", "x", "b", "mixed", "o"])
    assert inferred.columns == {
        "ts": SqlType.STRING,
        "n": SqlType.BIGINT,
        "x": SqlType.DOUBLE,
        "b": SqlType.BOOLEAN,
        "mixed": SqlType.STRING,
        "o": SqlType.STRING,
    }
    assert inferred.missing == {}
    assert inferred.fields == ("b", "empty", "mixed", "n", "o", "ts", "x")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-9223372036854775808", "9223372036854775807"], SqlType.BIGINT),
        (["1", "9223372036854775808"], SqlType.DOUBLE),
        (["-9223372036854775809"], SqlType.DOUBLE),
        (["1", "2.5"], SqlType.DOUBLE),
        (["1", "null", "1e20"], SqlType.DOUBLE),
        (["1", "true"], SqlType.STRING),
    ],
)
def test_one_value_of_the_sample_makes_a_column_wider(values: list[str], kind: SqlType) -> None:
    sample = "".join(f'{{"v":{value}}}\n' for value in values).encode()
    assert infer_columns(sample, ["v"]).columns == {"v": kind}


def test_paths_have_the_types_of_the_values_they_lead_to() -> None:
    sample = b'{"a":{"b":1,"c":[{"d":true}]},"a.c":"x"}\n{"a":{"b":2.5},"a.b":null}\n{"a":7}\n'
    inferred = infer_columns(sample, ["a", "a.b", "a.c[0].d", "a['c'][0]['d']", "a.c", "a.x", "a[0]"])
    assert inferred.columns == {
        "a": SqlType.STRING,
        "a.b": SqlType.BIGINT,
        "a.c[0].d": SqlType.BOOLEAN,
        "a['c'][0]['d']": SqlType.BOOLEAN,
        "a.c": SqlType.STRING,
    }
    assert "no column 'a.x'" in inferred.missing["a.x"] and "a[0]" in inferred.missing


def test_what_is_not_found_has_a_reason() -> None:
    missing = infer_columns(SAMPLE, ["empty", "mixde"]).missing
    assert "null in all 2 lines" in missing["empty"]
    assert "did you mean 'mixed'" in missing["mixde"]
    assert "no line yet" in infer_columns(b"", ["a"]).missing["a"]
