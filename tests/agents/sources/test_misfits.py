"""Whether a source's lines are nearly all rejected."""

from elf.agents.sources.misfits import LINES_MIN, Misfits


def test_the_first_lines_of_a_source_are_judged_however_few() -> None:
    misfits = Misfits(had_events=False)
    assert misfits.note(0, 1)
    assert misfits.prevail
    assert misfits.judged == (1, 1)


def test_a_few_bad_lines_of_a_source_that_had_events_say_nothing() -> None:
    misfits = Misfits(had_events=True)
    assert not misfits.note(0, LINES_MIN - 1)
    assert not misfits.note(10, 0)
    assert not misfits.prevail


def test_it_takes_nine_of_ten_to_fall_ill_and_half_of_them_to_recover() -> None:
    misfits = Misfits(had_events=True)
    assert not misfits.note(11, 89)
    assert misfits.note(10, 90)
    assert not misfits.note(0, 1_000), "said already"
    assert not misfits.note(40, 60), "neither nearly all, nor the minority"
    assert misfits.prevail
    assert misfits.note(50, 50)
    assert not misfits.prevail
    assert misfits.note(0, 20), "ill again, to be said again"


def test_a_source_that_was_judged_by_one_line_recovers_by_one() -> None:
    misfits = Misfits(had_events=False)
    misfits.note(0, 1)
    assert misfits.note(1, 0)
    assert not misfits.note(0, 1), "it had events"


def test_lines_that_the_pre_filter_skips_are_good_ones_of_a_source_that_had_events() -> None:
    misfits = Misfits(had_events=True)
    assert not misfits.note(50, 600, 100_000)
    assert not misfits.note(0, 600, 6_000)
    assert misfits.note(0, 600, 60), "nine of ten are rejected still"
    assert misfits.note(0, 60, 600)
    assert not misfits.prevail
    misfits = Misfits(had_events=False)
    assert not misfits.note(1, 60, 600), "the first event shows the format"
    assert not misfits.note(0, 60, 600)


def test_lines_that_the_pre_filter_skips_say_nothing_of_a_source_that_never_had_an_event() -> None:
    misfits = Misfits(had_events=False)
    assert not misfits.note(0, 0, 10_000)
    assert misfits.note(0, 1, 10_000)
    assert misfits.prevail and misfits.judged == (1, 1)
    assert not misfits.note(0, 1, 10_000)
