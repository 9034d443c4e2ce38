"""Lines between the pre-filter and the parser: put together and divided, none is lost and none is moved."""

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.counters import Oddities
from elf.agents.sources.kept import Kept, joined
from elf.agents.sources.lines import line_ends

LINES = st.lists(st.binary(max_size=5).filter(lambda line: b"\n" not in line), max_size=6)


@st.composite
def parts(draw: st.DrawFn) -> Kept:
    data = b"".join(line + b"\n" for line in draw(LINES))
    return Kept(data, line_ends(data), tuple(draw(LINES)), draw(st.integers(0, 9)), Oddities(draw(st.integers(0, 9))))


def same(one: Kept, other: Kept) -> bool:
    return one.ends.tolist() == other.ends.tolist() and all(
        getattr(one, name) == getattr(other, name) for name in ("data", "huge", "filtered", "oddities")
    )


@given(st.lists(parts(), min_size=1, max_size=4))
def test_lines_put_together_are_all_there(those: list[Kept]) -> None:
    whole = joined(those)
    assert whole.data == b"".join(part.data for part in those)
    assert whole.ends.tolist() == line_ends(whole.data).tolist()
    assert whole.huge == tuple(line for part in those for line in part.huge)
    assert whole.count == sum(part.count for part in those)
    assert whole.memory_bytes == sum(part.memory_bytes for part in those)
    assert whole.filtered == sum(part.filtered for part in those)
    assert whole.oddities.truncated == sum(part.oddities.truncated for part in those)


@given(parts().filter(lambda part: part.count > 1))
def test_halves_put_together_are_the_whole(part: Kept) -> None:
    first, second = part.halves()
    assert abs(first.count - second.count) <= 1
    # The huge ones come after the others in both halves, as in the whole.
    assert not (first.huge and second.data)
    assert same(joined([first, second]), part)


@given(st.binary(min_size=1, max_size=9), st.booleans())
def test_a_line_is_kept_as_it_is(line: bytes, newline: bool) -> None:
    line = line.replace(b"\n", b"")
    kept = Kept.whole(line + b"\n" if newline else line)
    assert (kept.data, kept.ends.tolist(), kept.count) == (line + b"\n", [len(line)], 1)
