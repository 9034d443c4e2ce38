"""Retiring agents: who is meant, and what is missing of them; whole agents do it in `tests/system/test_retire.py`."""

from __future__ import annotations

import pytest

from elf.agents.errors import BadRequestError
from elf.agents.publications.retirement import find_member


def test_an_agent_is_found_by_id_name_or_address() -> None:
    known = {"a1": ("web1", "10.0.0.1:4250"), "a2": ("web2", "10.0.0.2:4250"), "a3": ("web2", "")}
    assert [find_member(word, known) for word in ("a2", "web1", "10.0.0.1:4250", "web9")] == ["a2", "a1", "a1", None]
    with pytest.raises(BadRequestError, match=r"2 agents are called 'web2'.*a2, a3"):
        find_member("web2", known)
