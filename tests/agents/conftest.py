"""What tests of agents have in common: a job's plan stays for the next test that compiles it; creators' keys."""

from __future__ import annotations

import pathlib
from collections import deque
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from elf.client import creator_keys
from tests.agents.owned import MINE, THEIRS
from tests.virtual.agents import now_ms

#: Plans that stay; hardly a file compiles more.
PLANS_MAX = 500


class Keeping:
    """Holds plans, so that whoever compiles the same job finds them, as he does while anybody else has them.

    Args:
        shared: where they are found.
    """

    def __init__(self, shared: MutableMapping[bytes, Any]) -> None:
        self._shared = shared
        self._held: deque[Any] = deque(maxlen=PLANS_MAX)
        self.is_on = True

    def hold(self, plan: Any) -> Any:
        """Hold a plan that was made, if plans are held now; returns it."""
        if self.is_on:
            self._held.append(plan)
        return plan

    def switch(self, *, on: bool) -> None:
        """Let go of all plans, and hold those that are made from now on, or none."""
        self._held.clear()
        # Garbage can still be found there.
        self._shared.clear()
        self.is_on = on


@pytest.fixture(autouse=True, scope="module")
def keeping() -> Iterator[Keeping]:
    """Keep the plans that a file's tests make: most are of the same few jobs, and making one takes 7 ms."""
    # Not before it is needed: other tests of the same run need no agent.
    from elf.agents.jobs import plan

    kept, compile_anew = Keeping(plan._plans), plan._compile_anew
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_compile_anew", lambda *args: kept.hold(compile_anew(*args)))
        yield kept


@pytest.fixture
def fresh_plans() -> None:
    """For tests of how plans come and go: nothing holds them but the test."""


@pytest.fixture(autouse=True)
def plans_apart(request: pytest.FixtureRequest, keeping: Keeping) -> Iterator[None]:
    """Keep no plans of tests that patch anything, of which these may be made, and of those that ask for fresh ones."""
    is_apart = not {"monkeypatch", "fresh_plans"}.isdisjoint(request.fixturenames)
    if is_apart:
        keeping.switch(on=False)
    yield
    if is_apart:
        keeping.switch(on=True)


@pytest.fixture
def keys(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pathlib.Path]:
    """The files of two creators' keys, one of whom may be an operator; nobody has a key of his own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.setattr(creator_keys, "now_ms", now_ms)
    files = {"mine": tmp_path / "mine.key", "theirs": tmp_path / "theirs.key"}
    for file, secret in zip(files.values(), (MINE, THEIRS), strict=True):
        file.write_text(secret.hex() + "\n")
        file.chmod(0o600)
    return files
