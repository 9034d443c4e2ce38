"""What a request of the API asks with beside its body: names in the path, parameters, headers.

All raise BadRequestError for what is none, with what would be right.
"""

from __future__ import annotations

import re

import msgspec
from aiohttp import web

from elf.agents.errors import BadRequestError
from elf.agents.http.bodies import UNREADABLE
from elf.agents.intake.push_keys import PushKey
from elf.agents.jobs.orders import ORDER_HEADER, Order
from elf.agents.language.durations import parse_duration_ms
from elf.agents.wire.changes import KEEP_MS_MAX

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
#: Of a key, an agent or a duration; what is longer is none.
TEXT_CHARS_MAX = 4096
_IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,128}")
_SERIAL = re.compile(r"[0-9]{1,18}")


def names_of(request: web.Request) -> tuple[str, str]:
    """Return the creator and the name of the job that a request is about."""
    creator, name = request.match_info["creator"], request.match_info["name"]
    for what, word in (("creator", creator), ("job name", name)):
        if not NAME.fullmatch(word):
            raise BadRequestError(
                f"{what} {word[:100]!r} is not possible: use up to 63 of a-z 0-9 . _ - and begin with a letter or digit"
            )
    return creator, name


def order_of(request: web.Request) -> Order | None:
    """Return the creator's order that a request comes with, if it does."""
    text = request.headers.get(ORDER_HEADER)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text.encode(errors="replace"), type=Order)
    except UNREADABLE as error:
        raise BadRequestError(f"{ORDER_HEADER} is no order of a creator: {error}") from None


def push_key_of(request: web.Request) -> PushKey | None:
    """Return what a push is known by when it is sent again; None: a retry of it may count twice."""
    key, serial = request.headers.get("Idempotency-Key"), request.headers.get("Push-Serial")
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise BadRequestError(
            f"Idempotency-Key {key[:100]!r} is not possible: use 1 to 128 visible ASCII characters, such as a UUID"
        )
    if serial is None:
        return None if key is None else PushKey(key)
    if key is None or not _SERIAL.fullmatch(serial):
        wrong = f"Push-Serial {serial[:100]!r} is not possible" if key is not None else "Push-Serial has no client"
        raise BadRequestError(
            f"{wrong}: send a number from 0 on that rises with each push, and the client's name as Idempotency-Key"
        )
    return PushKey(key, int(serial))


def limit_of(request: web.Request) -> int | None:
    """Return how many rows, or entries, are wanted at most; None: that is not said."""
    text = request.query.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise BadRequestError(f"limit = {text[:100]!r}: use a number of rows, 1 or more")
    return int(text)


def keep_ms_of(request: web.Request) -> int | None:
    """Return how long a stopped job can be resumed: a duration, or nothing of one, such as `0s`; None: as is usual."""
    text = request.query.get("keep")
    if text is None:
        return None
    if re.fullmatch(r"0+ ?[a-z]*", text):
        return 0
    try:
        keep_ms = parse_duration_ms(text[:TEXT_CHARS_MAX])
    except ValueError:
        keep_ms = KEEP_MS_MAX + 1
    if keep_ms > KEEP_MS_MAX:
        wanted = "a duration such as 24h, 7 days at most, or 0s to end the job for good"
        raise BadRequestError(f"keep = {text[:100]!r}: use {wanted}")
    return keep_ms


def key_of(request: web.Request) -> str | None:
    """Return the key whose row alone is wanted, as text; None: all rows are."""
    key = request.query.get("key")
    if key is not None and len(key) > TEXT_CHARS_MAX:
        raise BadRequestError(f"key is longer than {TEXT_CHARS_MAX} characters")
    return key


def within_s_of(request: web.Request, usual_s: float) -> float:
    """Return in what time something is to be done."""
    text = request.query.get("within", f"{usual_s:.0f}s")
    try:
        return parse_duration_ms(text[:TEXT_CHARS_MAX]) / 1000
    except ValueError:
        raise BadRequestError(f"within = {text[:100]!r}: use a duration such as 60s") from None
