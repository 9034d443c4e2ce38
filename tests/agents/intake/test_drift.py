"""Lines whose values change their type, read by a whole pump: what labels are to say of them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from elf.agents.worker.payload import Notes
from tests.agents.intake.test_rejections import BASE_MS, INTERVAL, Site


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.database.close()


def test_values_that_do_not_fit_are_told_of_with_the_interval_of_their_event(site: Site) -> None:
    values = ("1", "2.0", '"3"', "null", "2.5", '"n/a"', "1e20")
    for at_ms in (BASE_MS, BASE_MS + 2_000):
        site.write("".join(f'{{"ts":{at_ms},"product":"a","cents":{value},"m":{{}}}}\n' for value in values))
    site.write(f'{{"ts":{BASE_MS},"product":{{}},"cents":[]}}\n{{"cents":true}}\n')
    site.read()
    assert site.pump.oddities.mistyped == {"cents": 7}
    notes = site.notes()
    assert notes == Notes(
        rejected=1,
        lines=16,
        misread=True,
        mistyped={"cents": ((INTERVAL, INTERVAL, 4), (INTERVAL + 1, INTERVAL + 1, 3))},
    )


def test_a_few_rejected_lines_among_many_are_no_cause(site: Site) -> None:
    site.write(site.event() * 150 + "nonsense\n")
    site.read()
    site.write(site.event() * 49)
    assert site.notes() == Notes(rejected=1, lines=200)
