"""Following a job's results through agents and masters that come and go; each result comes once."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from elf.agents.errors import StoppedError, UnknownJobError
from elf.agents.wire.result import Result
from elf.client.attempts import Attempts
from elf.client.trails import AttemptError
from elf.client.until import Until, is_reached

#: Who was followed before is sought for so long at least when it is lost, whatever the deadline of questions.
LOST_S = 30.0


async def follow(attempts: Attempts, path: str, end_s: float, until: Until) -> AsyncGenerator[Result, None]:
    """Yield a job's newest result, then each new or revised one, until it is stopped or `is_reached`.

    Args:
        attempts: asks the agents.
        path: of the job's stream.
        end_s: the deadline of the first answer.
        until: see `is_reached`.

    Raises:
        UnavailableError: nobody answers, or whoever did is gone and nobody took its place.
        ElfError: the job cannot be followed.
    """
    seen: str | None = None
    trail = attempts.begin(end_s)
    while True:
        heard = False
        try:
            async with contextlib.aclosing(attempts.stream(trail, path, seen)) as stream:
                async for cursor, result in stream:
                    seen, heard = cursor, True
                    yield result
                    if is_reached(result, until):
                        break
            return
        except AttemptError as attempt:
            if isinstance(attempt.error, UnknownJobError | StoppedError) and seen is not None:
                return
            if heard:
                trail = attempts.begin(attempts.end_s(LOST_S))
            await attempts.failed(trail, attempt)
