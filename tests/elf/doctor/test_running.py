"""Whatever answers where an agent should, it is looked at, and nothing it says gets into a bundle."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elf.doctor.answers import Answers, _rows, _texts, read_metrics
from elf.doctor.bundle import pack
from elf.doctor.running import look_at_answers

MARK = "pl4nted"
TEXTS = st.sampled_from([MARK, f"{MARK}.example.com", f"source {MARK}: {MARK}", "running", "partial", "access"])
KEYS = st.sampled_from(
    f"reasons notes creator name source state trouble completeness status missing window {MARK} "
    "end_ms through_ms release detail title late".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(KEYS, VALUES, max_size=5), max_size=3)


@given(VALUES, ROWS, ROWS, st.dictionaries(KEYS, VALUES, max_size=4), st.lists(TEXTS, max_size=3))
def test_anything_may_answer(ready: Any, members: Any, jobs: Any, result: Any, labels: list[str]) -> None:
    answers = Answers("http://127.0.0.1:1", {"status": "alive"})
    answers.reasons = _texts(ready, "reasons")
    answers.notes = _texts(ready, "notes")
    answers.members = _rows({"rows": members}, "rows")
    answers.jobs = _rows({"rows": jobs}, "rows")
    answers.results = {f"{job.get('creator')}/{job.get('name')}": result for job in answers.jobs}
    answers.metrics = read_metrics("".join(f'elf_x{{job="{label}"}} 1\n{MARK}{{a="b"}} 2\n' for label in labels))
    findings = list(look_at_answers(answers, {}))
    assert all(each.what and each.why and each.mend for each in findings)
    with tarfile.open(fileobj=io.BytesIO(pack(findings, None, answers))) as packed:
        for entry in packed:
            text = packed.extractfile(entry).read().decode()  # type: ignore[union-attr]
            assert json.loads(text) is not None and MARK not in text
