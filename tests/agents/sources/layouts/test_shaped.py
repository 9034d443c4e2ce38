"""Lines read by columns, where there are no kernels, are what their twin makes of them, however damaged."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.language.types import SqlType
from elf.agents.sources.catalogue import LAYOUTS
from elf.agents.sources.layouts.frames import Reader
from elf.agents.sources.layouts.pasted import pasted
from elf.agents.sources.layouts.shaped import ShapedLines
from elf.agents.sources.layouts.twin import Twin
from tests.agents.sources.native.kernels import apart, block_of
from tests.fuzz import lines as fuzzed
from tests.kernels import work

RANDOM = st.integers(0, 2**64 - 1).map(random.Random)
COMBINED = LAYOUTS["combined"].layouts[0]


@settings(max_examples=150)
@given(RANDOM)
def test_lines_of_all_formats(rng: random.Random) -> None:
    assert work.shaped_lines(rng) == work.LINES


@given(RANDOM)
def test_values_of_all_sorts(rng: random.Random) -> None:
    texts = [*fuzzed.lines_of(fuzzed.damaged_texts([], rng)), b"GET /a?b HTTP/1.1", b"- - HTTP/1.0", b"", b"/a?", b"?"]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int32)
    spans = np.stack([ends - np.array([len(text) for text in texts], np.int32), ends], axis=1)
    spans[rng.randrange(len(texts))] = -1
    block = b"".join(texts)
    assert list(fuzzed._parts(ShapedLines(), block, spans)) == list(fuzzed._parts(Twin(), block, spans))
    numbers = [text for text in ("-", "+5", "007", "1" * 18, "1" * 19, "1" * 30) for _ in range(5)]
    block, ends = block_of([text.encode() for text in numbers])
    spans = np.stack([np.append(0, ends[:-1] + 1), ends], axis=1).astype(np.int32)
    found = []
    for who in (ShapedLines(), Twin()):
        out, valid = np.zeros(len(spans), np.int64), np.zeros(4, np.uint8)
        found.append((who.integers(block, spans, out, valid), out.tolist(), valid.tolist()))
    assert found[0] == found[1]


def test_the_usual_lines_of_a_web_server_need_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    line = '192.0.2.%d - %s [26/Nov/2026:09:00:%02d +0100] "GET /a%d?x=é HTTP/1.1" 200 %s "-" "Mozilla/5.0 (X11)"'
    lines = [(line % (at, "-jo"[at % 2 :][:2] if at % 2 else "-", at, at, at or "-")).encode() for at in range(50)]
    block, ends = block_of(lines)
    wanted = {"path": SqlType.STRING, "query": SqlType.STRING, "bytes": SqlType.BIGINT, "remote_user": SqlType.STRING}
    expected = Reader([pasted(COMBINED)], kernels=Twin()).read(block, ends, wanted)
    assert not len(expected.misfits)
    monkeypatch.setattr(Twin, "take_apart", None)
    monkeypatch.setattr(Twin, "requests", None)
    monkeypatch.setattr(Twin, "uris", None)
    found = Reader([pasted(COMBINED)], kernels=ShapedLines()).read(block, ends, wanted)
    assert [each.to_list() for each in found.columns] == [each.to_list() for each in expected.columns]
    assert found.times.tolist() == expected.times.tolist()


def test_one_line_among_others_that_is_read_by_itself_keeps_its_place() -> None:
    usual = b'192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "a"'
    odd = usual.replace(b"192.0.2.1", b"2001:db8::1").replace(b":00 +", b":60 +")
    lines = [usual] * 20 + [odd, b"torn"] + [usual] * 20 + [b"torn", odd]
    program = work._formats().all[list(work.LAYOUTS).index("combined")]
    assert apart(ShapedLines(), *program[:2], lines) == apart(Twin(), *program[:2], lines)
