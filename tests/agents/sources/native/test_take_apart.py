"""Kernels take lines apart as their twin does, byte for byte."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.catalogue import LAYOUTS, WRAPPERS
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import Field, Layout
from elf.agents.sources.layouts.notation import read_layout
from elf.agents.sources.layouts.pasted import pasted, wrapped
from elf.agents.sources.layouts.program import Op, Program, Step, compiled
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.times.notations import NO_TIME
from tests.agents.sources.format_files import formats, sample_lines
from tests.agents.sources.native.damage import damaged
from tests.agents.sources.native.grammars import ODD, TIMES, layout_of, line_of, time_text, value_of
from tests.agents.sources.native.kernels import all_outputs, apart, block_of, built, same_apart

REFUSED = [line for entry in formats().values() for line in entry["refused"]]
#: What wrappers put before a line.
HEADS = (
    "<134>Nov 26 09:00:00 web1 traefik[12]: ",
    "<134>1 2026-11-26T09:00:00Z web1 traefik - - - ",
    "2026-11-26T09:00:00.1Z stdout F ",
)
WRAPPED = [head + sample["line"] for head in HEADS for sample in formats()["traefik"]["samples"]]
LINES = [line for line in (*sample_lines(), *REFUSED, *WRAPPED) if "\n" not in line]
#: Layouts of each format, and of some in a wrapper.
NAMED: dict[str, list[Layout]] = {name: [pasted(text) for text in named.layouts] for name, named in LAYOUTS.items()}
NAMED |= {name: [pasted(text)] for name, text in WRAPPERS.items()}
NAMED |= {f"{name}+traefik": wrapped(pasted(text), NAMED["traefik"]) for name, text in WRAPPERS.items()}
RANDOM = st.integers(0, 2**64 - 1).map(random.Random)


@pytest.mark.parametrize("name", NAMED)
def test_samples_of_all_formats(name: str) -> None:
    found = same_apart(*all_outputs(list(map(compiled, NAMED[name]))), [line.encode() for line in LINES])
    assert found.times and found.misfits


@pytest.mark.parametrize("name", NAMED)
def test_damaged_lines(name: str) -> None:
    rng = random.Random(name)
    programs = all_outputs(list(map(compiled, NAMED[name])))
    # Of its own lines more, or few would get beyond the first field.
    own = [line_of(rng.choice(NAMED[name]).tokens, rng) for _ in range(40)]
    own += [line for line in LINES if apart(built(), *programs, [line.encode()]).times] * 4
    same_apart(*programs, [damaged([*own, *LINES], rng).encode() for _ in range(1_000)])


@given(RANDOM)
def test_lines_of_all_grammars(rng: random.Random) -> None:
    for _ in range(6):
        layouts = [layout_of(rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        lines = [line_of(rng.choice(layouts).tokens, rng) for _ in range(12)]
        lines += [damaged(lines, rng) for _ in range(4)]
        same_apart(*all_outputs(list(map(compiled, layouts))), [line.replace("\n", " ").encode() for line in lines])


@given(RANDOM)
def test_steps_that_no_layout_has(rng: random.Random) -> None:
    """A value of any kind may end anywhere."""
    for kind in Kind:
        after = "".join(rng.choice(ODD) for _ in range(rng.randint(0, 3))).encode()
        stops = {rng.choice(ODD.encode()) for _ in range(rng.choice((0, 1, 2, 3, 5)))} | {*after[:1]}
        field = Step(
            Op.FIELD,
            kind=kind,
            slot=0,
            stops=bytes(sorted(stops)),
            after=after,
            quoted=rng.random() < 0.4,
            pads=rng.random() < 0.1,
            notations=tuple(rng.sample(TIMES, rng.randint(0, 2))) if kind is Kind.TIME else (),
        )
        steps = (field, Step(Op.LITERAL, after), Step(Op.END))
        program = Program(steps, compiled(read_layout("{a:word}")).slots, rng.random() < 0.5)
        values = [value_of(Field("", kind, field.notations or TIMES), rng) for _ in range(4)]
        lines = [f"{value}{after.decode()}{rng.choice(('', ' x'))}".replace("\n", " ").encode() for value in values]
        same_apart(*all_outputs([program]), lines)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=80), max_size=6), st.data())
def test_any_text(lines: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(NAMED)))
    same_apart(*all_outputs(list(map(compiled, NAMED[name]))), [line.encode() for line in lines])


@pytest.mark.parametrize("name", ["combined", "haproxy", "traefik", "nginx-ingress", "alb", "syslog"])
def test_the_blocks_end_may_be_anywhere(name: str) -> None:
    """What is behind the last line is nobody's."""
    programs = all_outputs(list(map(compiled, NAMED[name])))
    known = max((line.encode() for line in LINES if apart(built(), *programs, [line.encode()]).times), key=len)
    for size in range(0, len(known), 1 if name == "combined" else 7):
        same_apart(*programs, [known, known[: len(known) - size]])
        same_apart(*programs, [known[size:]])
    # The last lines are short, so that several of them lie at the end.
    for size in range(0, 80, 1 if name == "combined" else 9):
        same_apart(*programs, [known, *[b"x"] * (size // 8), known[: size % 8]])


def test_times_that_differ_a_little_from_the_one_before() -> None:
    """The newest time is remembered: what follows it may make it another one, or none."""
    rng = random.Random(9)
    for notation in TIMES:
        for after in (" ", "]", '"', ".", "+"):
            layout = Layout((read_layout("{ts:time:clf}").tokens[0]._replace(notations=(notation,)), after.encode()))
            program = all_outputs([compiled(layout._replace(is_open=True))])
            texts = [time_text(notation, rng) for _ in range(5)]
            rests = [
                f"{before}{after}{behind}" for before in ("", " CET", "+01:00", ".5") for behind in ("", " x", "5")
            ]
            lines = [rng.choice(texts) + rng.choice((*rests, "")) + rng.choice((" ", " x" * 20)) for _ in range(150)]
            same_apart(*program, [line.encode() for line in lines])


def test_a_notation_that_was_tried_before_may_fit_the_next_time() -> None:
    names = ("clf|clf-zoneless", "iso|iso-zoneless|iso-minutes", "syslog|iso", "epoch|epoch-hex")
    rng = random.Random(10)
    for name in names:
        field = read_layout(f"{{ts:time:{name}}}").tokens[0]
        program = all_outputs([compiled(Layout((field, b" "), is_open=True))])
        texts = [time_text(rng.choice(field.notations), rng) for _ in range(6)]
        lines = [rng.choice(texts) + rng.choice((" ", " +0100 ", " -a", " UTC x", "")) for _ in range(400)]
        same_apart(*program, [line.encode() for line in lines])


def test_a_line_without_its_time_has_none() -> None:
    programs = all_outputs([compiled(read_layout("{a:word} {?<{ts:time:clf}> ?}{b:word}"))])
    found = same_apart(*programs, [b"x <26/Nov/2026:09:00:00 +0000> y", b"x y", b"x <26/Nov/2026:09:00:00 +0000> y"])
    assert found.times == [1795683600000, NO_TIME, 1795683600000]
    assert found.spans[0] == [[0, 1], [33, 34], [37, 38]]


def test_a_text_ends_at_the_rightmost_quote_behind_which_the_rest_fits() -> None:
    """What a try before found is forgotten: here an ident, and a part that may be missing."""
    layout = read_layout('{a:word} "{t:loose}" {?x{:ident} {b:word} ?}{u:user} [{c:word}]')
    lines = (
        b'- "q" xid 5 first last [1]',
        b'- "q" xid 5 a [x" first last [1]',
        b'- "q" xid 5 u [1" o p [2]',
        b'- "a"b" c" - [1]',
    )
    found = same_apart(*all_outputs([compiled(layout)]), lines)
    assert len(found.misfits) == 1 and found.misfits[0][0] == 0
    assert len(found.times) == 3


def test_many_quotes_cost_no_more_than_their_number() -> None:
    programs = all_outputs([compiled(layout) for layout in NAMED["traefik"]])
    [sample] = [s["line"] for s in formats()["traefik"]["samples"][:1]]
    line = sample.replace("Mozilla", '" 1 "a" "b" ' * 2_000 + "Mozilla").encode()
    assert same_apart(*programs, [line, line[:-1] + b"x", line[:-4]]).times


def test_the_layout_that_got_furthest_is_named() -> None:
    texts = ("{a:int} {b:int} {c:int}", "{a:int} {b:word} {c:int}", "{a:word} {b:word} {c:int}", "{a:word}")
    programs = all_outputs([compiled(read_layout(text)) for text in texts])
    found = same_apart(*programs, [b"1 2 x", b"1 x y", b"x y z", b"1 2 3", b"x", b"", b"1 x 3"])
    assert [misfit[:2] for misfit in found.misfits] == [[0, 0], [1, 1], [2, 2], [5, 0]]
    assert found.layouts == [0, 3, 1]


def test_no_lines_are_none() -> None:
    programs = all_outputs([compiled(layout) for layout in NAMED["combined"]])
    assert apart(built(), *programs, []) == apart(Twin(), *programs, [])


def test_lines_are_read_once_though_outputs_lie_there() -> None:
    """Ends that change meanwhile make nonsense, and no worse."""
    programs, outputs = all_outputs([compiled(read_layout("{ts:time:epoch} {a:word}"))])
    block, ends = block_of([b"1795683600 x"] * 50)
    spans = [np.empty((50, 2), np.int32) for _ in range(outputs)]
    misfits = np.empty((50, 4), np.int32)
    with pytest.raises(ValueError, match="newline"):
        built().take_apart(programs, block, ends + 1, spans, ends, np.empty(50, np.uint8), misfits)
    rows, unfit = built().take_apart(programs, block, ends, spans, ends, np.empty(50, np.uint8), misfits)
    assert (rows, unfit) == (50, 0) and set(ends.tolist()) == {1795683600000}
