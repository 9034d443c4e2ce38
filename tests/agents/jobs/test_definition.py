"""Job files: what they may hold, where their mistakes are, and that definitions survive the wire."""

import pytest

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition, Options, check_definition, load_definition, query_place
from elf.overlay.ids import app_id

JOB = '''name = "micro-promotion"
creator = "shop"
query = """
SELECT product, count(*) AS clicks
FROM clicks
GROUP BY product, window(ts, '300 seconds', '30 seconds')
"""

[options]
lateness = "5 minutes"
trees = 1
straggler = "late"
interval = "500ms"

[columns]
product = "string"
price = "Double"
'''


def test_reads_a_whole_job_file() -> None:
    definition = load_definition(JOB)
    assert (definition.name, definition.creator, definition.source) == ("micro-promotion", "shop", "clicks")
    assert definition.options == Options(lateness_ms=300_000, interval_ms=500)
    assert definition.columns == {"product": "STRING", "price": "DOUBLE"}
    assert definition.key == "shop/micro-promotion"
    assert definition.app_id == app_id("micro-promotion", "shop")


def test_bare_sql_is_named_after_its_file() -> None:
    definition = load_definition("SELECT count(*) FROM hits", filename="jobs/All-Hits.sql", creator="ann")
    assert (definition.name, definition.creator, definition.source) == ("all-hits", "ann", "hits")
    assert load_definition("SELECT count(*) FROM hits", filename="x.sql", name="y").name == "y"


def test_a_definition_with_a_bad_name_is_refused() -> None:
    bad = Definition(name="../x", creator="a", source="s", query="SELECT count(*) FROM s")
    with pytest.raises(JobSpecError):
        check_definition(bad)


def test_a_definition_with_a_column_of_no_type_is_refused() -> None:
    bad = Definition(name="x", creator="a", source="s", query="SELECT count(*) FROM s", columns={"price": "MONEY"})
    with pytest.raises(JobSpecError, match="MONEY"):
        check_definition(bad)


@pytest.mark.parametrize(
    ("change", "place", "said"),
    [
        (('name = "micro', 'nmae = "micro'), (1, 1), "did you mean 'name'"),
        (('lateness = "5 minutes"', 'latness = "5 minutes"'), (10, 1), "did you mean 'lateness'"),
        (('"5 minutes"', '"5 lightyears"'), (10, 1), "5 minutes"),
        (('"5 minutes"', "5"), (10, 1), "in quotes"),
        (("trees = 1", "trees = 65"), (11, 1), "1 to 64"),
        (("trees = 1", "trees = 0"), (11, 1), "1 to 64"),
        (("trees = 1", "trees = true"), (11, 1), "1 to 64"),
        (('"late"', '"vold"'), (12, 1), "did you mean 'void'"),
        (('"late"', "true"), (12, 1), "known: late, drop"),
        (('"late"', '"late"\nsemantics = "exactly once"'), (13, 1), "did you mean 'exactly-once'"),
        (('"late"', '"late"\nreplicas = 4'), (13, 1), "0 to 3"),
        (('"late"', '"mirror"\nreplicas = 0'), (13, 1), "at least one replica"),
        (('"Double"', '"Dubble"'), (17, 1), "did you mean 'DOUBLE'"),
        (('"micro-promotion"', '"Micro Promotion"'), (1, 1), "1 to 63"),
        (('"micro-promotion"', "7"), (1, 1), "text in quotes"),
        (('creator = "shop"', 'creator = "shop"\nsource = "views"'), (3, 1), "reads 'clicks'"),
        (("[columns]", "[columns"), (15, 9), ""),
        (("[options]", "[optoins]"), (9, 2), "did you mean 'options'"),
    ],
)
def test_a_mistake_is_named_with_its_place(change: tuple[str, str], place: tuple[int, int], said: str) -> None:
    text = JOB.replace(*change)
    assert text != JOB
    with pytest.raises(JobSpecError) as caught:
        load_definition(text)
    assert (caught.value.line, caught.value.column) == place
    assert said in str(caught.value)


def test_a_job_without_query_and_a_huge_file_are_refused() -> None:
    with pytest.raises(JobSpecError, match="no query"):
        load_definition('name = "x"')
    with pytest.raises(JobSpecError, match="longer than"):
        load_definition("#" * 100_000)


def test_the_place_of_the_query_in_the_file_is_known() -> None:
    assert query_place(JOB) == (3, 0)
    assert query_place('name = "x"\nquery = "SELECT 1"') == (1, 9)
    assert query_place("") == (0, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'name = "a"\n[options]\nlateness = "1s"\nquery = "SELECT 1"\n',
            "4:1: the query is in [options]",
        ),
        ('query = "SELECT count(*) FROM clicks"', 'the job has no name (add name = "...")'),
    ],
)
def test_what_is_missing_is_named(text: str, said: str) -> None:
    with pytest.raises(JobSpecError) as failure:
        load_definition(text)
    assert said in str(failure.value)
