"""Hearing of the jobs that a job reads: whoever follows it listens to their masters, and to its own.

Its own says when windows close by its agents' clocks, theirs say what is in them, and of each window that late data
changed. A job that is read and stopped, or away, is waited for: it is not the one that is followed.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from elf.agents.errors import JobError, StoppedError, UnavailableError, UnknownJobError
from elf.agents.jobs.parts import Part, first_part
from elf.agents.master.announcement import Told
from elf.agents.results.due import LATEST_MS
from elf.agents.results.gatherer import Answered, Ask, all_of
from elf.agents.results.listener import Voice
from elf.agents.wire.records import JobRecord
from elf.agents.wire.shares import Watch

T = TypeVar("T")
Heard = tuple[Voice, Told]


async def read_by(key: str, job: str, answer: Awaitable[T]) -> T:
    """Wait for what a job that another one reads answers; errors say who reads it.

    Raises:
        UnavailableError: it cannot be asked now, is stopped, or is not there.
        JobError: what it answers.
    """
    try:
        return await answer
    except UnknownJobError:
        raise UnavailableError(f"{key} reads {job}, and there is no such job now") from None
    except StoppedError as error:
        # Not the one that is asked for is stopped: who follows that waits until this one is resumed.
        raise UnavailableError(f"{key} reads {job}: {error}") from None
    except JobError as error:
        raise type(error)(f"{key} reads {job}: {error}") from None


async def hear_all(job: JobRecord, ask: Ask) -> list[Heard]:
    """Return whom the followers of a job over other jobs listen to, and how far each of them is.

    The first is its own master; then come those of the jobs that it reads, as it names them, part by part.

    Args:
        job: the newest publication, as far as it is known; what its master says counts.
        ask: asks masters.

    Raises:
        JobError: the job is stopped, is not there, or cannot be read any more.
        UnavailableError: one of the masters cannot be asked now.
    """
    definition = job.definition
    assert definition.joined is not None
    window = definition.joined.uses[0].window
    clock = Voice(definition.app_id, job.publication, functools.partial(ask, definition.key), True, window, closes=True)
    read = [_hear_read(definition.key, use.job, window, ask) for use in definition.joined.uses]
    return [heard for each in await all_of([_hear([clock]), *read]) for heard in each]


async def _hear_read(key: str, job: str, window: tuple[int, int], ask: Ask) -> list[Heard]:
    def voice(part: Part) -> Voice:
        async def asked(watch: Watch, timeout_ms: int) -> Answered:
            return await read_by(key, job, ask(part.key, watch, timeout_ms))

        return Voice(part.app, "", asked, leads=not part.number, window=window)

    ((first, told),) = await _hear([voice(first_part(job))])
    found = [(first, told), *await _hear([voice(part) for part in told.job.definition.parts[1:]])]
    return [(each._replace(publication=told.job.publication), said) for each, said in found]


async def _hear(voices: Sequence[Voice]) -> list[Heard]:
    told = await all_of([voice.hear(-1, LATEST_MS, 0) for voice in voices])
    return list(zip(voices, told, strict=True))
