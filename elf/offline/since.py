"""What `--since` means to all commands: a length of time before now, or before what there is, or a time."""

from __future__ import annotations

from elf.agents.errors import BadRequestError, JobError
from elf.agents.language.durations import parse_duration_ms
from elf.agents.master.window_texts import instant_ms


def parse_since(text: str, end_ms: int | None) -> int:
    """Return the event time that `--since` names.

    Args:
        text: a duration such as `2h` or `7d`, or a time, ISO-8601 (UTC unless it says otherwise) or epoch milliseconds.
        end_ms: what durations count back from; None for a total, which counts from a fixed time.

    Raises:
        JobError: it is neither, or a duration where only a time will do.
    """
    try:
        length_ms = parse_duration_ms(text)
    except ValueError:
        try:
            return instant_ms(text)
        except BadRequestError as error:
            raise JobError(f"--since {text!r}: {error}; or a duration such as 2h or 7d") from None
    if end_ms is None:
        raise JobError(
            f"--since {text!r}: the total of a job without a window counts from a fixed time; give one such as "
            "2026-11-20T12:00:00Z"
        )
    return end_ms - length_ms
