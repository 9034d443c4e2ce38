"""Figures on the command lines of demonstrations and examples: what cannot be is refused before anything starts."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable


def whole_seconds(multiple_of: int = 1) -> Callable[[str], int]:
    """Return a reader of whole seconds above zero, such as the length of a window; for `type` of argparse."""
    wanted = "above 0" if multiple_of == 1 else f"that are a multiple of {multiple_of}, such as {2 * multiple_of}"

    def read(text: str) -> int:
        seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        if seconds < 1 or seconds % multiple_of:
            raise ArgumentTypeError(f"{text!r} is not possible; use whole seconds {wanted}")
        return seconds

    return read


def rate(text: str) -> float:
    """Read a rate per second, above zero; for `type` of argparse."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{text!r} is not possible; use a number above 0")
    return number
