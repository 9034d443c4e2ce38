from __future__ import annotations

import pytest

from elf.agents.errors import ConfigError
from elf.agents.sources.catalogue import LAYOUTS
from elf.agents.sources.layouts.line import read_line
from elf.agents.sources.layouts.misfit import Misfit
from elf.agents.sources.layouts.notation import read_layout
from elf.agents.sources.layouts.pasted import pasted
from elf.agents.sources.layouts.program import NO_OUTPUT, TIME_OUTPUT, Program, compiled, encoded
from elf.agents.sources.layouts.twin import decoded
from tests.agents.sources.format_files import layouts


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_encoded_is_decoded(name: str) -> None:
    for text in LAYOUTS[name].layouts:
        program = compiled(pasted(text))
        names = [field.column for field in program.slots]
        wanted = {column: number for number, column in enumerate(names[::2]) if column != "ts"}
        found, outputs = decoded(encoded(program, wanted))
        nameless = [
            step._replace(shown="", notations=tuple(n._replace(name="", example="") for n in step.notations))
            for step in program.steps
        ]
        assert list(found.steps) == nameless and found.is_open == program.is_open
        assert outputs == [TIME_OUTPUT if name == "ts" else wanted.get(name, NO_OUTPUT) for name in names]


@pytest.mark.parametrize("name", [name for name in layouts() if not name.endswith("-error")])
def test_a_line_that_is_cut_or_goes_on_fits_no_more(name: str) -> None:
    programs = [compiled(pasted(text)) for text in LAYOUTS[name].layouts]
    for sample in layouts()[name]["samples"]:
        line = sample["line"].encode()
        assert any(fits(program, line) for program in programs)
        assert not any(fits(program, line + b" x") for program in programs if not program.is_open)
        assert not any(fits(program, line[: len(line) // 2]) for program in programs)


def fits(program: Program, line: bytes) -> bool:
    try:
        read_line(program, line)
    except Misfit:
        return False
    return True


def test_a_column_twice_has_to_be_the_same() -> None:
    program = compiled(read_layout("{a:word} {ts:time:epoch} {a:word}"))
    assert fits(program, b"x 1795683600 x") and fits(program, b"- 1795683600 x")
    assert not fits(program, b"x 1795683600 y")


@pytest.mark.parametrize(
    "text",
    [
        "{a:word}{b:word} {ts:time:clf}",
        "{a:rest} {ts:time:clf}",
        '"{a:loose}" "{b:loose}" {ts:time:clf}',
        "{a:int}5 {ts:time:clf}",
        "{a:numbers}, {ts:time:clf}",
        "{?{a:word} ?}{ts:time:clf}",
    ],
)
def test_a_layout_that_can_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_layout(text)


@pytest.mark.parametrize(("text", "line"), [("{a:host}{b:uri} {ts:time:epoch}", b"a.example/x?y 1795683600")])
def test_what_begins_with_a_mark_may_follow_at_once(text: str, line: bytes) -> None:
    spans = read_line(compiled(read_layout(text)), line)
    assert [line[slice(*span)] for span in spans if span] == [b"a.example", b"/x?y", b"1795683600"]
