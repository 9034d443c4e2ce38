"""Whether a source's lines are nearly all rejected, and what is said to be right instead."""

import pytest

from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.misfits import LINES_MIN, Misfits, advice

COMBINED = b'192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"\n'
OBJECT = b'{"at":"2026-01-01T00:00:00Z","path":"/"}\n'
NO_COMMON = "these lines do not have the format 'common': this one stops at byte"
NO_COMBINED = "these lines do not have the format 'combined': this one stops at byte"
GIVE = "; give the log_format (nginx) or LogFormat (Apache) that they are written with as --format"
USER = f"{NO_COMBINED} 0, remote_addr (addr): an address or a full host name, not"
END = f"{NO_COMBINED} 76, behind all fields: the end of the line, not"


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


@pytest.mark.parametrize(
    ("format", "line", "said"),
    [
        ("json", COMBINED, "these lines are no JSON objects; say what they are with --format, such as combined"),
        ("json", b"nonsense\n", "these lines are no JSON objects; say what they are with --format, such as combined"),
        ("json", OBJECT, "their field 'ts' is no time; name the field that has it with --time"),
        ("combined", OBJECT, f"{USER} {OBJECT.decode().rstrip()!r}; say what they are with --format, such as json"),
        (
            "common",
            COMBINED,
            f'{NO_COMMON} 65, behind all fields: the end of the line, not \' "-" "curl"\'; say what they are with '
            "--format, such as combined",
        ),
        ("combined", COMBINED[:-1] + b' "-" 0.003\n', f"""{END} ' "-" 0.003'{GIVE}"""),
        ("combined", b"nonsense\n", f"{USER} 'nonsense'{GIVE}"),
        (
            "$remote_addr [$time_local]",
            b"nonsense\n",
            "these lines do not have the format '$remote_addr [$time_local]': this one stops at byte 0, remote_addr "
            f"(ip): an IP address, not 'nonsense'{GIVE}",
        ),
    ],
)
def test_advice_names_the_format_that_the_lines_have(format: str, line: bytes, said: str) -> None:
    parsed = parse_chunk(make_format(format), line, {})
    assert advice(make_format(format), *parsed.rejects[0]) == said


def test_advice_names_the_setting_where_there_is_a_configuration() -> None:
    said = advice(make_format("json"), b"nonsense", "json: not an object", "sources.access")
    assert said.endswith("say what they are with --format (format under [sources.access]), such as combined")


def test_advice_does_not_show_lines_that_people_may_not_see() -> None:
    said = advice(make_format("combined"), b"secret - -", "format:remote_addr@0", quotes=False)
    assert "stops at byte 0" in said and "secret" not in said
