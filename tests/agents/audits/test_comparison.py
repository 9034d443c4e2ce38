"""A claimed sum is held to the snapshots, whatever way these were merged, and nobody honest is accused."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.audits.comparison import Outcome, compare
from elf.agents.completeness.lacks import Cause, Lack, Lacks
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.types import SqlType
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, merge, noting, pack, unpack

COLUMNS = {"product": SqlType.STRING, "cents": SqlType.BIGINT, "price": SqlType.DOUBLE}
EVERYTHING = """
SELECT product, count(*) AS n, sum(cents) AS cents, sum(price) AS total, avg(price) AS mean, avg(cents) AS m,
  min(price) AS low, max(product) AS high, stddev(price) AS s, var_pop(cents) AS v, approx_count_distinct(cents) AS d,
  approx_percentile(price, 0.5) AS p, collect_set(product) AS products, count(DISTINCT cents) AS c, first(price) AS f,
  min_by(product, cents) AS b, bool_or(cents > 3) AS any
FROM clicks GROUP BY product, window(ts, '2 seconds')
"""


def compiled(query: str) -> Plan:
    text = f'name = "job"\ncreator = "shop"\nquery = """{query}"""\n'
    return compile_job(load_definition(text, filename="job.toml"), COLUMNS)


PLAN = compiled(EVERYTHING)
VERSIONS = Versions.of(PLAN)
PRICES = st.floats(-1e12, 1e12) | st.sampled_from([0.0, -0.0, 0.1, 1e-300, 1e15, -1e15, float("nan"), float("inf")])
EVENTS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.integers(-9, 9), PRICES), max_size=12)
NOTES = st.builds(
    Notes,
    late=st.integers(0, 3),
    rejected=st.integers(0, 3),
    lines=st.integers(0, 3),
    misread=st.booleans(),
    gaps=st.lists(st.tuples(st.integers(0, 3), st.integers(3, 6)), max_size=2).map(tuple),
    mistyped=st.dictionaries(st.sampled_from("xy"), st.just(((1, 2, 3),)), max_size=1),
)


def snapshot(agent: str, rows: Sequence[tuple[int, str, int, float]], notes: Notes) -> bytes | None:
    schema = {"ts": pl.Int64, "product": pl.String, "cents": pl.Int64, "price": pl.Float64}
    events = pl.DataFrame(list(rows), schema=schema, orient="row")
    events = events.with_columns((pl.col("ts") * 1000).cast(pl.Datetime("ms")))
    lacks = Lacks.of([Lack(agent, 1, 2, Cause.CRASH)] if notes.late else [])
    return pack(notes.with_lacks(notes.lacks | lacks), PLAN.reduce(events))


def merged_somehow(snapshots: Sequence[bytes], rng: random.Random) -> bytes:
    """Merge as some tree would: any groups, in any order, each any number of times."""
    left = list(snapshots)
    while len(left) > 1:
        rng.shuffle(left)
        count = rng.randint(1, len(left))
        left = [merge(left[:count], VERSIONS), *left[count:]]
    return merge(left, VERSIONS) if rng.random() < 0.3 else left[0]


@given(st.lists(st.tuples(EVENTS, NOTES), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_whatever_way_a_tree_has_merged_them_nobody_is_accused(
    agents: list[tuple[list[tuple[int, str, int, float]], Notes]], rng: random.Random
) -> None:
    made = [snapshot(f"a{number}", rows, notes) for number, (rows, notes) in enumerate(agents)]
    snapshots = [payload for payload in made if payload is not None]
    if not snapshots:
        return
    found = compare(merged_somehow(snapshots, rng), snapshots, VERSIONS)
    are_finite = all(abs(price) < 1e308 for rows, _ in agents for *_, price in rows)
    assert found is Outcome.SAME or (found is Outcome.UNDECIDED and not are_finite)


def snapshots_of(rng: random.Random, count: int = 3) -> list[bytes]:
    def rows() -> list[tuple[int, str, int, float]]:
        return [(rng.randint(0, 3), rng.choice("abc"), rng.randint(-9, 9), rng.uniform(-9, 9)) for _ in range(8)]

    made = [snapshot(f"a{number}", rows(), Notes(late=1)) for number in range(count)]
    return [payload for payload in made if payload is not None]


STATES = list(PLAN.schema.states)


@pytest.mark.parametrize("state", STATES)
def test_each_state_that_is_altered_is_found(state: str) -> None:
    for seed in range(5):
        snapshots = snapshots_of(random.Random(seed))
        notes, paos = unpack(merge(snapshots, VERSIONS), VERSIONS)
        frame = paos.by_kind()[0]
        at = random.Random(seed).randrange(frame.height)
        column, dtype = frame[state], PLAN.schema.states[state]
        value = column[at]
        value = 0.5 if value != value or value in (float("inf"), float("-inf")) else value
        other = value + "z" if dtype == pl.String else not value if dtype == pl.Boolean else value + 1
        altered = frame.with_columns(
            pl.when(pl.int_range(pl.len()) == at).then(pl.lit(other, dtype)).otherwise(column).alias(state)
        )
        claimed = pack(notes, Paos([(0, altered)]))
        assert claimed is not None
        assert compare(claimed, snapshots, VERSIONS) is Outcome.DIFFERS, (state, value, other)


def test_what_is_left_out_added_or_said_twice_is_found() -> None:
    snapshots = snapshots_of(random.Random(1))
    true = merge(snapshots, VERSIONS)
    notes, paos = unpack(true, VERSIONS)
    frame = paos.by_kind()[0]
    assert compare(true, snapshots, VERSIONS) is Outcome.SAME
    for altered in (
        pack(notes, frame.head(frame.height - 1)),
        pack(notes, frame.with_columns(pl.col("interval") + 1)),
        pack(notes, PLAN.schema.empty()),
        pack(replace(notes, late=0), frame),
        pack(notes.with_lacks(Lacks()), frame),
        noting(true, Notes(rejected=1)),
        noting(true, Notes(gaps=((1, 2),))),
        noting(true, Notes(since={"a9": {2: 1}})),
        merge(snapshots[1:], VERSIONS),
        merge([*snapshots, snapshots[0]], VERSIONS),
    ):
        assert altered is not None
        assert compare(altered, snapshots, VERSIONS) is Outcome.DIFFERS


def test_bytes_that_are_no_payload_accuse_nobody() -> None:
    snapshots = snapshots_of(random.Random(1))
    assert compare(b"\xc1", snapshots, VERSIONS) is Outcome.UNDECIDED
    assert compare(merge(snapshots, VERSIONS), [*snapshots, b"\xc1"], VERSIONS) is Outcome.UNDECIDED


def test_who_knows_a_version_later_than_others_has_merged_the_same() -> None:
    other = compiled("SELECT product, sum(price) AS p FROM clicks GROUP BY product, window(ts, '2 seconds')")
    both = Versions(
        [
            Compiled(Version(number=1, definition=PLAN.definition), PLAN),
            Compiled(Version(number=2, definition=other.definition, since=5, begins=5, pao_kind=2), other),
        ]
    )
    later = [pack(Notes(), Paos([(2, other.schema.merge([frame]))])) for frame in map(_priced, (1.0, 2.0))]
    made = [*snapshots_of(random.Random(2)), *(each for each in later if each is not None)]
    assert compare(merge(made, VERSIONS), made, both) is Outcome.SAME, "passed on as they came"
    assert compare(merge(made, both), made, both) is Outcome.SAME
    assert compare(merge(made, both), made, VERSIONS) is Outcome.SAME, (
        "of what the root does not know it counts nothing"
    )
    assert compare(merge(made[:-1], both), made, both) is Outcome.DIFFERS


def _priced(price: float) -> pl.DataFrame:
    schema = {"ts": pl.Int64, "product": pl.String, "cents": pl.Int64, "price": pl.Float64}
    events = pl.DataFrame([(14_000, "a", 1, price)], schema=schema, orient="row")
    other = compiled("SELECT product, sum(price) AS p FROM clicks GROUP BY product, window(ts, '2 seconds')")
    return other.reduce(events.with_columns(pl.col("ts").cast(pl.Datetime("ms"))))


def test_rounding_is_held_to_what_was_added_up_not_to_what_is_left() -> None:
    """Two that conspire hand up 1e15 and -1e15: whatever their parent rounds away, it has altered nothing."""
    prices = [[1e15, 0.123], [-1e15], [0.1] * 3]
    rows = [[(1, "a", 1, price) for price in each] for each in prices]
    made = [snapshot(f"a{number}", each, Notes()) for number, each in enumerate(rows)]
    snapshots = [payload for payload in made if payload is not None]
    for seed in range(20):
        assert compare(merged_somehow(snapshots, random.Random(seed)), snapshots, VERSIONS) is Outcome.SAME
