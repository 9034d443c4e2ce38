"""JSON values that are not of their column's type: read where they mean the same, else null, counted, and dated."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Oddities, Parsed
from elf.agents.sources.format import parse_chunk
from elf.agents.sources.json_lines import JsonLines
from elf.agents.sources.raw_texts import raw_name

START_MS = 1_795_168_800_000
BIG = 2**63
#: JSON text -> what a BIGINT, a DOUBLE, a BOOLEAN and a STRING column have of it.
READ: dict[str, tuple[int | None, float | None, bool | None, str | None]] = {
    "null": (None, None, None, None),
    "2": (2, 2.0, None, "2"),
    '"2"': (2, 2.0, None, "2"),
    '"-7"': (-7, -7.0, None, "-7"),
    "2.0": (2, 2.0, None, "2.0"),
    "2e3": (2000, 2000.0, None, "2e3"),
    "20e-1": (2, 2.0, None, "20e-1"),
    "2.5": (None, 2.5, None, "2.5"),
    '"2.5"': (None, 2.5, None, "2.5"),
    "1e20": (None, 1e20, None, "1e20"),
    str(BIG - 1): (BIG - 1, float(BIG), None, str(BIG - 1)),
    str(-BIG): (-BIG, -float(BIG), None, str(-BIG)),
    str(BIG): (None, float(BIG), None, str(BIG)),
    f'"{BIG}"': (None, float(BIG), None, str(BIG)),
    str(-BIG - 1): (None, -float(BIG), None, str(-BIG - 1)),
    "18446744073709551615": (None, 2.0**64, None, "18446744073709551615"),
    '"n/a"': (None, None, None, "n/a"),
    '""': (None, None, None, ""),
    '"NaN"': (None, None, None, "NaN"),
    "true": (None, None, True, "true"),
    '"true"': (None, None, True, "true"),
    '"False"': (None, None, False, "False"),
    '"yes"': (None, None, None, "yes"),
    "{}": (None, None, None, "{}"),
    "[1]": (None, None, None, "[1]"),
    "1e400": (None, None, None, "1e400"),
    '"-1e400"': (None, None, None, "-1e400"),
}
TYPES = (SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN, SqlType.STRING)
#: For each column of the property: its type, a value of its own, and what never fits it.
COLUMNS = {
    "n": (SqlType.BIGINT, "7", ['"n/a"', "2.5", "1e20", "true", "{}", str(BIG)]),
    "x": (SqlType.DOUBLE, "0.5", ['"n/a"', "1e400", "false", "[]"]),
    "b": (SqlType.BOOLEAN, "true", ["1", '"yes"', "{}"]),
    "d": (SqlType.DATE, '"2026-11-20"', ['"2026-02-30"', "3", "[2]"]),
    "t": (SqlType.TIMESTAMP, '"2026-11-20T10:00:00Z"', ['"noon"', "{}"]),
    "s": (SqlType.STRING, '"any"', []),
}
WANTED = {name: kind for name, (kind, _, _) in COLUMNS.items()}


def read(text: str, kind: SqlType, *, among: int = 0) -> tuple[Any, Parsed]:
    """Read one value, beside so many lines that are of the column's type."""
    plain = {"BIGINT": "1", "DOUBLE": "0.5", "BOOLEAN": "true", "STRING": '"s"'}[kind.value]
    lines = [f'{{"ts":{START_MS},"v":{each}}}\n' for each in [*[plain] * among, text]]
    parsed = parse_chunk(JsonLines(), "".join(lines).encode(), {"v": kind})
    return parsed.events["v"].to_list()[-1], parsed


@pytest.mark.parametrize("text", READ)
def test_what_each_type_has_of_a_value(text: str) -> None:
    for kind, wanted in zip(TYPES, READ[text], strict=True):
        for among in (0, 3):
            value, parsed = read(text, kind, among=among)
            assert (value, type(value)) == (wanted, type(wanted))
            unfit = {"v": 1} if wanted is None and text != "null" else {}
            assert parsed.oddities == Oddities(mistyped=unfit) and parsed.counters.parsed == among + 1
            assert {name: times.tolist() for name, times in parsed.mistyped.items()} == {
                name: [START_MS] for name in unfit
            }


numbers = st.builds(
    lambda sign, digits, point, exponent: f"{sign}{int(digits)}{point}{exponent}",
    st.sampled_from(["", "-"]),
    st.text("0123456789", min_size=1, max_size=20),
    st.sampled_from(["", ".0", ".5", ".25", ".000"]),
    st.sampled_from(["", "e0", "e2", "E+3", "e-1", "e19", "e400"]),
)


@given(numbers, st.booleans())
def test_a_whole_number_is_one_however_it_is_written(text: str, is_quoted: bool) -> None:
    exact, doubled = Decimal(text), float(text)
    whole, _ = read(f'"{text}"' if is_quoted and text.lstrip("-").isdigit() else text, SqlType.BIGINT)
    fits = exact == exact.to_integral_value() and -BIG <= exact < BIG
    assert whole == (int(exact) if fits else None)
    number, _ = read(f'"{text}"' if is_quoted else text, SqlType.DOUBLE)
    assert number == (None if math.isinf(doubled) else doubled)


@st.composite
def drifting(draw: st.DrawFn) -> tuple[bytes, dict[str, list[int]], int]:
    """Lines some of whose values do not fit; with the times of these by column, and the number of events."""
    lines, unfit, events = [], dict[str, list[int]](), 0
    for row in range(draw(st.integers(1, 12))):
        at_ms = START_MS + 1000 * row
        is_event = draw(st.integers(0, 7)) > 0
        values: dict[str, Any] = {"ts": at_ms if is_event else "never"}
        for name, (_, plain, others) in COLUMNS.items():
            if others and draw(st.integers(0, 5)) == 0:
                values[name] = draw(st.sampled_from(others))
                if is_event:
                    unfit.setdefault(name, []).append(at_ms)
            elif draw(st.booleans()):
                values[name] = draw(st.sampled_from([plain, "null"]))
        fields = [f'"{name}":{value if name != "ts" else json.dumps(value)}' for name, value in values.items()]
        lines.append("{" + ",".join(fields) + "}\n")
        events += is_event
    return "".join(lines).encode(), unfit, events


@given(drifting())
def test_each_null_that_was_a_value_is_counted_and_dated(drawn: tuple[bytes, dict[str, list[int]], int]) -> None:
    chunk, unfit, events = drawn
    parsed = parse_chunk(JsonLines(), chunk, WANTED)
    assert parsed.counters.balanced and parsed.counters.parsed == events
    assert {name: sorted(times.tolist()) for name, times in parsed.mistyped.items()} == unfit
    assert parsed.oddities.mistyped == {name: len(times) for name, times in unfit.items()}
    # What each was stands beside it, as a column of texts has it.
    texts = parse_chunk(JsonLines(), chunk, dict.fromkeys(WANTED, SqlType.STRING)).events
    raw = {name: parsed.events[raw_name(name)] for name in WANTED if raw_name(name) in parsed.events.columns}
    assert raw.keys() == unfit.keys()
    for name, column in raw.items():
        is_lost = parsed.events[name].is_null() & texts[name].is_not_null()
        assert column.to_list() == texts[name].set(~is_lost, None).to_list()


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 5)), max_size=4))
def test_oddities_add_up_column_by_column(counts: list[dict[str, int]]) -> None:
    whole = sum((Oddities(1, mistyped=each) for each in counts), Oddities())
    assert whole.truncated == len(counts)
    assert whole.mistyped == {name: n for name in "abc" if (n := sum(each.get(name, 0) for each in counts))}
