"""Lines give the same events whether their texts become codes or stay texts, with what is redacted of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from elf.agents.language.codes import is_coded, with_texts
from elf.agents.language.types import SqlType
from elf.agents.settings.config import PrivacySection
from elf.agents.sources.counters import Parsed
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.format import Format, make_format
from elf.agents.sources.privacy.redaction import Redactor
from tests.agents.sources.format_files import layouts
from tests.agents.sources.native import object_lines
from tests.agents.sources.native.damage import damaged

SETTINGS = PrivacySection(ip="prefix", mask=["referer"], drop=["a.b"])
REQUESTS = (
    "GET /a?token=secret HTTP/1.1",
    "GET /a?b=1 HTTP/1.1",
    "POST /a?b=1 HTTP/1.0",
    "GET http://h:80/a HTTP/2",
    "garbage",
    "-",
    "",
)
LINE = '{ip} - {user} [10/Oct/2026:13:55:36 +0000] "{request}" 200 {bytes} "http://x/?sid=1" "agent {user}"'


def parsed(
    format: Format, chunks: Sequence[bytes], redactor: Redactor, columns: dict[str, SqlType], *, is_coded: bool
) -> Parsed:
    """Parse chunks one after the other; returns the events of all, redacted, and what else is said of the last one."""
    coded = Dictionaries(redactor.texts) if is_coded else None
    frames, last = [], None
    for chunk in chunks:
        last = format.parse(msgspec.structs.replace(format.keep(chunk), dictionaries=coded), columns)
        frames.append(with_texts(redactor.events(last.events)))
    assert last is not None
    return msgspec.structs.replace(last, events=pl.concat(frames, how="diagonal"))


def same(format: Format, chunks: Sequence[bytes], columns: dict[str, SqlType]) -> None:
    """Parse with dictionaries and without: events, counters, rejects and what is mistyped have to agree."""
    redactor = Redactor(SETTINGS, derived=format.derives_all, addresses=format.addresses)
    coded, plain = (parsed(format, chunks, redactor, columns, is_coded=each) for each in (True, False))
    assert_frame_equal(coded.events, plain.events)
    assert (coded.counters, coded.rejects, coded.oddities) == (plain.counters, plain.rejects, plain.oddities)
    assert {name: each.tolist() for name, each in coded.mistyped.items()} == {
        name: each.tolist() for name, each in plain.mistyped.items()
    }


@pytest.mark.parametrize("name", sorted(layouts()))
@settings(max_examples=4)
@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_lines_of_layouts(name: str, rng: random.Random) -> None:
    format, own = make_format(name), [sample["line"] for sample in layouts()[name]["samples"]]
    lines = [*own, *own, *(damaged(own, rng) for _ in range(10))]
    rng.shuffle(lines)
    assert format.columns is not None
    chunk = "".join(line.replace("\n", " ") + "\n" for line in lines).encode()
    same(format, [chunk, chunk], dict(format.columns))


@settings(max_examples=25)
@given(st.lists(st.tuples(*[st.sampled_from(each) for each in (("192.0.2.7", "h.example"), ("-", "ann"), REQUESTS)])))
def test_requests(drawn: list[tuple[str, str, str]]) -> None:
    lines = [LINE.format(ip=ip, user=user, request=request, bytes=len(request)) for ip, user, request in drawn]
    format = make_format("combined")
    assert format.columns is not None
    chunk = "".join(f"{line}\n" for line in lines).encode()
    same(format, [chunk, chunk], dict(format.columns))


@settings(max_examples=25)
@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_objects(rng: random.Random) -> None:
    chunks = [b"".join(line + b"\n" for line in object_lines.lines(rng, 40)) for _ in range(3)]
    same(make_format("json"), chunks, dict.fromkeys(object_lines.COLUMNS, SqlType.STRING))


def test_texts_become_codes_where_there_are_dictionaries() -> None:
    format, redactor = make_format("combined"), Redactor(PrivacySection(ip="prefix"))
    chunk = (LINE.format(ip="192.0.2.7", user="ann", request=REQUESTS[0], bytes=1) + "\n").encode()
    kept = msgspec.structs.replace(format.keep(chunk), dictionaries=Dictionaries(redactor.texts))
    assert format.columns is not None
    events = format.parse(kept, format.columns).events
    texts = {name for name, kind in format.columns.items() if kind is SqlType.STRING}
    assert {column.name for column in events if is_coded(column)} == texts
    # Nobody sees what is redacted.
    assert with_texts(events).select("remote_addr", "query").rows() == [("192.0.2.0", "token=***")]
