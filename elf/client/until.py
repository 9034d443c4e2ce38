"""When somebody who follows a job has seen enough. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from elf.agents.errors import BadRequestError, JobError
from elf.agents.wire.result import Result

Until: TypeAlias = Literal["converged"] | None


def check_until(until: object) -> None:
    """Refuse what nobody could wait for; raises BadRequestError."""
    if until not in (None, "converged"):
        raise BadRequestError(f"until = {until!r} is not known; there is 'converged'")


def is_reached(result: Result, until: Until) -> bool:
    """Tell whether a result is what is waited for: `converged`, one that is the job's last result.

    Raises:
        JobError: the job does not read its last result, so nothing of it converges.
    """
    if until is None:
        return False
    if result.converged is msgspec.UNSET:
        raise JobError(f"{result.job} does not read its last result, so it never converges")
    return bool(result.converged)
