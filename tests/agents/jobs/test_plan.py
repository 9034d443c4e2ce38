"""Plans: from events to PAOs to results, and what is refused at publish."""

import datetime as dt
import gc
import weakref

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.completeness.overflows import TOLD_MAX
from elf.agents.errors import JobError, JobSpecError
from elf.agents.jobs.definition import Definition, Options
from elf.agents.jobs.intervals import INTERVAL_MS_DEFAULT
from elf.agents.jobs.plan import Plan, compile_job, syntax_of
from elf.agents.language.query import columns_read
from elf.agents.language.types import SqlType
from elf.cbt.schema import INTERVAL

COLUMNS = {
    "Product": SqlType.STRING,
    "event": SqlType.STRING,
    "category": SqlType.STRING,
    "price": SqlType.DOUBLE,
    "status": SqlType.INT,
    "ok": SqlType.BOOLEAN,
}
PROMOTION = """
SELECT product, count(*) AS clicks
FROM clicks
WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, window(ts, '300 seconds', '30 seconds')
ORDER BY clicks DESC LIMIT 10
"""


def plan_of(query: str, options: Options | None = None, columns: dict[str, SqlType] | None = None) -> Plan:
    definition = Definition(name="x", creator="y", source="clicks", query=query, options=options or Options())
    return compile_job(definition, COLUMNS if columns is None else columns)


@pytest.mark.parametrize(
    ("interval_ms", "chosen_ms", "wanted_ms"),
    [(1_000, None, 5_000), (3_000, None, 6_000), (30_000, None, 10_000), (1_000, 500, 500), (1_000, 60_000, 60_000)],
)
def test_a_straggler_is_two_intervals_behind_unless_the_job_says_otherwise(
    interval_ms: int, chosen_ms: int | None, wanted_ms: int
) -> None:
    options = Options(interval_ms=interval_ms, leap_after_ms=chosen_ms)
    assert plan_of("SELECT count(*) AS n FROM clicks", options).leap_after_ms == wanted_ms


def events(*rows: tuple[int, str | None, str, str]) -> pl.DataFrame:
    start = dt.datetime(2024, 1, 1)
    return pl.DataFrame(
        [(start + dt.timedelta(seconds=second), *rest) for second, *rest in rows],
        schema={"ts": pl.Datetime("ms"), "Product": pl.String, "event": pl.String, "category": pl.String},
        orient="row",
    )


def test_micro_promotion_from_events_to_the_top_ten() -> None:
    plan = plan_of(PROMOTION)
    assert plan.interval_ms == 30_000 and plan.window == (300_000, 30_000)
    assert set(plan.columns) == {"Product", "event", "category"}
    assert plan.literals == ("click", "Video Games")
    frame = events(
        (0, "chess", "click", "Video Games"),
        (1, "go", "click", "Video Games"),
        (29, "go", "click", "Video Games"),
        (31, "go", "click", "Video Games"),
        (31, "go", "view", "Video Games"),
        (32, "go", "click", "Books"),
        (33, None, "click", "Video Games"),
    )
    paos = plan.reduce(frame)
    assert paos.schema == plan.schema.columns
    first = 1_704_067_200_000 // 30_000
    assert sorted(paos.rows(), key=str) == sorted(
        [(first, "chess", 1), (first, "go", 2), (first + 1, "go", 1), (first + 1, None, 1)], key=str
    )
    result = plan.finish(plan.schema.merge_window([paos]), (first * 30_000, first * 30_000 + 300_000))
    assert result.columns == ["product", "clicks"]
    assert result.rows() == [("go", 3), (None, 1), ("chess", 1)]


def test_no_events_give_no_rows_but_one_without_keys() -> None:
    assert plan_of(PROMOTION).reduce(events()).height == 0
    plan = plan_of("SELECT count(*) AS n, sum(status) AS s, min(event) AS e FROM clicks")
    assert plan.window is None and plan.interval_ms == INTERVAL_MS_DEFAULT
    assert plan.finish(plan.schema.merge_window([]), None).rows() == [(0, None, None)]
    having = plan_of("SELECT count(*) AS n FROM clicks HAVING n > 0")
    assert having.finish(having.schema.merge_window([]), None).rows() == []
    windowed = plan_of("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 minute')")
    assert windowed.finish(windowed.schema.merge_window([]), (0, 60_000)).rows() == []


def test_ties_come_in_the_order_of_the_output() -> None:
    plan = plan_of("SELECT product, count(*) AS n FROM clicks GROUP BY product ORDER BY n")
    rows = events(*((1, name, "click", "x") for name in "badc"))
    paos = plan.reduce(rows).drop(INTERVAL)
    results = [plan.finish(paos.sample(fraction=1.0, shuffle=True, seed=seed), None) for seed in range(5)]
    assert all(result.rows() == [("a", 1), ("b", 1), ("c", 1), ("d", 1)] for result in results)


def test_equal_aggregates_share_their_state() -> None:
    plan = plan_of("SELECT count(*) AS a, COUNT( * ) AS b, sum(price) + SUM(Price) FROM clicks ORDER BY sum(price)")
    assert [aggregate.kind for _, aggregate in plan.schema.aggregates] == ["count", "sum"]


def test_more_distinct_counts_than_the_tree_has_room_for() -> None:
    def distinct(count: int) -> str:
        return f"SELECT {', '.join(f'count(DISTINCT status + {i})' for i in range(count))} FROM clicks GROUP BY event"

    assert len(plan_of(distinct(63)).schema.slots) == 63
    with pytest.raises(JobSpecError, match="65 group keys, distinct counts, sets and sketches are more than 64"):
        plan_of(distinct(64))


def test_a_set_that_outgrows_its_bound_is_an_error_that_names_it() -> None:
    plan = plan_of("SELECT collect_set(n) AS s FROM clicks", columns={"n": SqlType.BIGINT})
    rows = pl.DataFrame({"ts": pl.Series([0] * 6_000).cast(pl.Datetime("ms")), "n": range(6_000)})
    paos = [plan.reduce(rows), plan.reduce(rows.with_columns(pl.col("n") + 5_000))]
    assert len(plan.finish(plan.schema.merge_window(paos[:1]), None)["s"][0]) == 6_000
    merged = plan.schema.merge_window(paos)
    with pytest.raises(JobError, match=r"collect_set\(n\) is not there: it has more than 10000 distinct values"):
        plan.finish(merged, None)
    told, overflows = plan.told(merged, None)
    assert told["s"].to_list() == [None] and overflows.count == 1


def test_a_sum_that_leaves_its_type_is_an_error_that_names_it_and_its_key() -> None:
    plan = plan_of(
        "SELECT product, sum(bytes) AS b FROM clicks GROUP BY product",
        columns={"product": SqlType.STRING, "bytes": SqlType.BIGINT},
    )
    rows = events((1, "a", "", ""), (2, "a", "", ""), (3, "b", "", "")).rename({"Product": "product"})
    largest = plan.reduce(rows.with_columns(bytes=pl.Series([2**63 - 1, -1, 2**63 - 1])))
    merged = plan.schema.merge_window([largest])
    assert plan.finish(merged, None).rows() == [("a", 2**63 - 2), ("b", 2**63 - 1)]
    said = r"sum\(bytes\) of product = 'a' is not there: the sum does not fit into 64 bits; sum\(bytes\) of .* = 'b'"
    with pytest.raises(JobError, match=said):
        plan.finish(plan.schema.merge_window([largest, largest]), None)


#: A query, and the name of its key.
OVERFLOWING = [
    ("SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k", "k"),
    ("SELECT lower(k) AS who, sum(v) AS s, count(*) AS n FROM t GROUP BY who", "who"),
    ("SELECT lower(k) AS who, sum(v) AS s, count(*) AS n FROM t GROUP BY 1 ORDER BY s LIMIT 50", "who"),
    ("SELECT sum(v) AS s, count(*) AS n FROM t GROUP BY lower(k)", "lower(k)"),
    ("SELECT K AS who, sum(v) AS s, count(*) AS n, collect_set(v) AS c FROM t GROUP BY t.k", "who"),
]
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63 - 1, -(2**63), 0, 1])


@pytest.mark.parametrize(("query", "name"), OVERFLOWING)
@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(NUMBERS, min_size=1, max_size=4), min_size=1), st.data())
def test_a_sum_that_leaves_its_type_takes_no_other_key_away(
    query: str, name: str, values: dict[str, list[int]], data: st.DataObject
) -> None:
    plan = plan_of(query, columns={"k": SqlType.STRING, "v": SqlType.BIGINT})
    flat = data.draw(st.permutations([(key, value) for key, each in values.items() for value in each]))
    schema = {"k": pl.String(), "v": pl.Int64()}
    frame = pl.DataFrame(flat, schema, orient="row").with_columns(pl.lit(0).cast(pl.Datetime("ms")).alias("ts"))
    merged = plan.schema.merge_window([plan.reduce(piece) for piece in frame.iter_slices(2)])
    rows, overflows = plan.told(merged, None)
    sums = {key: sum(each) for key, each in values.items()}
    beyond = {key for key, total in sums.items() if not -(2**63) <= total < 2**63}
    told = sorted((row["n"], row["s"] is None, row["s"] or 0) for row in rows.to_dicts())
    assert told == sorted((len(values[key]), key in beyond, 0 if key in beyond else sums[key]) for key in values)
    assert {each.key[name] for each in overflows.first} == beyond and overflows.count == len(beyond)
    assert {(each.column, each.why) for each in overflows.first} <= {("sum(v)", "the sum does not fit into 64 bits")}


def test_of_many_keys_the_first_are_named_and_all_are_counted() -> None:
    plan = plan_of("SELECT v, sum(b) AS s FROM t GROUP BY v", columns={"v": SqlType.BIGINT, "b": SqlType.BIGINT})
    rows = pl.DataFrame({"v": [*range(500)] * 2, "b": [2**63 - 1] * 1_000})
    rows = rows.with_columns(pl.lit(0).cast(pl.Datetime("ms")).alias("ts"))
    told, overflows = plan.told(plan.schema.merge_window([plan.reduce(rows)]), None)
    assert told.height == 500 and told["s"].null_count() == 500
    assert overflows.count == 500 and len(overflows.first) == TOLD_MAX
    assert overflows.sentences()[-1] == "and 490 more"


def test_a_chosen_interval_has_to_divide_the_window() -> None:
    assert plan_of(PROMOTION, Options(interval_ms=10_000)).interval_ms == 10_000
    with pytest.raises(JobSpecError, match="does not divide"):
        plan_of(PROMOTION, Options(interval_ms=7_000))


@pytest.mark.parametrize(
    ("condition", "literals"),
    [
        ("event = 'click'", ("click",)),
        ("'click' = event AND (status = 1 AND category = 'Toys')", ("click", "Toys")),
        ("event = 'click' OR category = 'Toys'", ()),
        ("NOT event = 'click'", ()),
        ("lower(event) = 'click'", ()),
        ("event != 'click'", ()),
        ("event <=> 'click'", ()),
        ("event = 'a/b' AND category = 'a\"b'", ()),
        ("event = 'é' AND category = ''", ()),
        ("event = '1.50' AND category = '1e5'", ()),
        ("status = '200'", ()),
        ("event = category", ()),
    ],
)
def test_literals_every_wanted_line_contains(condition: str, literals: tuple[str, ...]) -> None:
    assert plan_of(f"SELECT count(*) FROM clicks WHERE {condition}").literals == literals


@pytest.mark.parametrize(
    ("query", "place", "said"),
    [
        ("SELECT prodct, count(*) FROM clicks GROUP BY 1", (1, 8), "did you mean 'Product'"),
        ("SELECT product,\n  count(*) FROM clicks GROUP BY event", (1, 8), "neither in GROUP BY"),
        ("SELECT cuont(*) FROM clicks", (1, 8), "did you mean 'count'"),
        ("SELECT count(*) FROM clicks\nWHERE lowr(event) = 'x'", (2, 7), "did you mean 'lower'"),
        ("SELECT sum(count(*)) FROM clicks", (1, 12), "no meaning here"),
        ("SELECT count(*) FROM clicks WHERE count(*) > 1", (1, 35), "HAVING"),
        ("SELECT sum(DISTINCT event) FROM clicks", (1, 8), "DISTINCT"),
        ("SELECT sum(ok) FROM clicks", (1, 12), "takes a number"),
        ("SELECT sum(event) OVER () FROM clicks", (1, 8), "not in the job language"),
        ("SELECT mode(price) FROM clicks", (1, 8), "the aggregates are"),
        ("SELECT median(price) FROM clicks", (1, 8), "the nearest is approx_percentile(x, 0.9)"),
        ("SELECT quantile(price, 0.9) FROM clicks", (1, 8), "the nearest is approx_percentile(x, 0.9)"),
        ("SELECT percentile(price, 0.9) FROM clicks", (1, 8), "the nearest is approx_percentile(x, 0.9)"),
        ("SELECT count(*) FROM clicks GROUP BY session_window(ts, '1 hour')", (1, 38), "GROUP BY: window(ts, '5 min"),
        ("SELECT event FROM clicks WHERE status", (1, 32), "condition is needed"),
        ("SELECT count(*) FROM clicks WHERE NULL", (1, 8), "WHERE NULL lets nothing pass"),
        ("SELECT 1 AS x FROM clicks", (1, 8), "it needs GROUP BY"),
        ("SELECT window.start, count(*) FROM clicks", (1, 8), "no window"),
        ("SELECT window, count(*) FROM clicks GROUP BY window(ts, '1 hour')", (1, 8), "window.start"),
        ("SELECT count(*) FROM clicks GROUP BY 2", (1, 38), "position 2"),
        ("SELECT count(*) AS n FROM clicks GROUP BY n", (1, 43), "holds an aggregate"),
        ("SELECT event FROM clicks GROUP BY event ORDER BY price", (1, 50), "neither in GROUP BY"),
        ("SELECT event FROM clicks GROUP BY ROLLUP (event)", (1, 43), "not in the job language"),
        ("SELECT a.b, count(*) FROM clicks", (1, 8), "no column 'a.b'"),
        ("SELECT sum(price * 1.5) + sum(status * 1.5) FROM clicks", (1, 40), "write 1.5D"),
        ("SELECT max(1.5) FROM clicks", (1, 12), "write 1.5D"),
        ("SELECT reflect('java.lang.Runtime', 'exit') FROM clicks", (1, 8), "not in the job language"),
    ],
)
def test_what_cannot_run_is_refused_with_its_place(query: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        plan_of(query)
    assert said in str(caught.value)
    assert (caught.value.line, caught.value.column) == place


def test_columns_that_differ_only_in_case_are_ambiguous() -> None:
    with pytest.raises(JobSpecError, match="could be any of"):
        plan_of("SELECT max(a) FROM clicks", columns={"a": SqlType.INT, "A": SqlType.INT})


@pytest.mark.parametrize(
    "value",
    [
        "from_unixtime(n)",
        "CAST(CAST(n AS TIMESTAMP) AS STRING)",
        "CAST(date_add(DATE '2024-01-01', CAST(n AS INT)) AS STRING)",
        "date_trunc('year', CAST(n AS TIMESTAMP))",
        "trunc(date_add(DATE '2024-01-01', CAST(n AS INT)), 'month')",
        "hour(date_add(DATE '2024-01-01', CAST(n AS INT)))",
        "last_day(CAST(CAST(n AS TIMESTAMP) AS DATE))",
        "date_format(timestamp_millis(n), 'yyyy')",
    ],
)
def test_times_beyond_all_calendars_stop_no_job(value: str) -> None:
    plan = plan_of(f"SELECT max({value}) AS m FROM clicks", columns={"n": SqlType.BIGINT})
    numbers = [2**63 - 1, -(2**63), 2**62, 2**31, -(2**31), None]
    rows = pl.DataFrame({"n": numbers}, schema={"n": pl.Int64}).with_columns(ts=pl.lit(dt.datetime(2024, 1, 1)))
    assert plan.finish(plan.schema.merge_window([plan.reduce(rows)]), None).height == 1


def test_a_result_without_windows_has_no_intervals_to_void() -> None:
    query = "SELECT product, count(*) AS clicks FROM clicks GROUP BY product"
    plan_of(query, Options(straggler="drop"))
    plan_of(PROMOTION, Options(straggler="void"))
    with pytest.raises(JobSpecError, match="since the job's beginning"):
        plan_of(query, Options(straggler="void"))


def test_a_job_retains_its_windows_for_as_long_as_they_are() -> None:
    plan_of(PROMOTION, Options(retain_ms=300_000))
    with pytest.raises(JobSpecError, match="shorter than the window"):
        plan_of(PROMOTION, Options(retain_ms=299_999))


@pytest.mark.usefixtures("fresh_plans")
def test_one_plan_serves_all_who_have_the_same_definition_and_goes_with_the_last() -> None:
    definition = Definition(name="one", creator="shop", source="clicks", query=PROMOTION)
    plan = compile_job(definition, COLUMNS)
    assert compile_job(msgspec.structs.replace(definition), COLUMNS) is plan
    assert compile_job(msgspec.structs.replace(definition, version=2), COLUMNS) is not plan
    assert compile_job(definition, COLUMNS | {"price": SqlType.INT}) is not plan
    gone = weakref.ref(plan)
    del plan
    gc.collect()
    assert gone() is None


def test_the_syntax_of_a_plan_can_be_had_again() -> None:
    query = (
        "SELECT upper(product) AS p, sum(status) AS c FROM clicks WHERE status > 3 GROUP BY 1 HAVING max(status) > 1"
    )
    plan = compile_job(Definition(name="one", creator="shop", source="clicks", query=query), COLUMNS)
    syntax = syntax_of(plan)
    assert [str(node).lower() for node in syntax.groups] == ["upper(product)"] and str(syntax.where) == "status > 3"
    assert list(syntax.calls) == [name for name, _ in plan.schema.aggregates]
    assert [str(call).lower() for call in syntax.calls.values()] == ["sum(status)", "max(status)"]


@pytest.mark.usefixtures("fresh_plans")
def test_a_plan_makes_what_it_computes_again_when_it_is_used_half_by_half() -> None:
    plan = plan_of(PROMOTION)
    assert plan._halves.map is None and plan._halves.result is None
    paos = plan.reduce(
        events((1, "a", "click", "Video Games"), (2, "a", "click", "x"), (3, "b", "click", "Video Games"))
    )
    assert plan._halves.map is not None and plan._halves.result is None
    made = plan._map
    assert plan.finish(paos.drop(INTERVAL), (0, 300_000)).rows() == [("a", 1), ("b", 1)]
    assert plan._map is made and plan._halves.result is not None


@pytest.mark.parametrize("selected", ["window", "product, window", "WINDOW AS w", "window.start AS s, window"])
@pytest.mark.parametrize("has_one", [False, True])
def test_the_window_as_a_whole_is_refused_with_what_to_select(selected: str, has_one: bool) -> None:
    query = f"SELECT {selected}, count(*) AS n FROM clicks GROUP BY product, window(ts, '1 minute')"
    assert "window" not in columns_read(query)
    columns = {"product": SqlType.STRING, **({"window": SqlType.STRING} if has_one else {})}
    with pytest.raises(JobSpecError, match="the window itself is no value") as caught:
        plan_of(query, columns=columns)
    assert caught.value.hint == "select its bounds as window.start and window.end"


def test_a_column_of_that_name_is_one_where_it_is_a_key_or_there_is_no_window() -> None:
    columns = {"window": SqlType.STRING}
    assert plan_of("SELECT window, count(*) AS n FROM clicks GROUP BY window", columns=columns).output[0][0] == "window"
    query = "SELECT clicks.window, count(*) AS n FROM clicks GROUP BY clicks.window, window(ts, '1 minute')"
    assert columns_read(query).keys() == {"window"}
    assert plan_of(query, columns=columns).output[0][0] == "window"
