"""Which messages may wait."""

from __future__ import annotations

from overlay.links.lanes import is_patient
from overlay.messages import Settle, Unlink

APP = bytes(20)


def test_only_a_verdict_that_names_nobody_may_wait() -> None:
    assert is_patient(Settle(APP, 1, 4, 5, ()))
    assert not is_patient(Settle(APP, 1, 4, 5, ("w1",))), "somebody's data are to be sent again"
    assert not is_patient(Settle(APP, 1, 4, 5, (), ("w1",)))
    assert not is_patient(Unlink(APP, 1))
