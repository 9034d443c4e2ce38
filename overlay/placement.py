"""Which two agents may become a job's root, and which of them does.

Owns the candidate keys and the choice; asking the candidates for their load is the publisher's
(`elf.agents.publications`). Pure. Paper: §2.3 takes the one agent closest to SHA-1(name, creator).

Differs from the paper: with one key, chance gives some agents many roots (98.4 % of 1,280 agents root fewer than 3 of
500 trees, the paper says 99.5 %). Of two keys the one whose agent roots fewer trees wins, which leaves nearly nobody
with more than one root above the mean (Mitzenmacher: the power of two choices). OVERLAY section 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from elf.overlay.ids import ID_BYTES

#: Salts of a job's candidate keys; the one that won is part of the job's record.
SALTS = (0, 1)


def candidate_key(app: bytes, salt: int) -> bytes:
    """Return the key whose closest agent is a job's candidate root.

    Args:
        app: the job's id (`ids.app_id`).
        salt: 0 is the job's id itself, as in the paper and in records from before there were two; 1 is
            SHA-1(NUL "salt" NUL || salt as one byte || app). The leading NUL keeps it apart from every `app_id`.

    Raises:
        ValueError: the salt is none of `SALTS`, or `app` is no id.
    """
    if salt not in SALTS or len(app) != ID_BYTES:
        raise ValueError(f"salt {salt} of an id of {len(app)} bytes; there are salts {SALTS} of ids of {ID_BYTES}")
    return app if salt == 0 else hashlib.sha1(b"\x00salt\x00" + bytes([salt]) + app).digest()


def choose_salt(loads: Sequence[int | None]) -> int | None:
    """Return the salt of the candidate with the fewest roots; the lower salt on a tie.

    Args:
        loads: by salt, how many trees the candidate is root of; None for one that cannot be reached, which loses.

    Returns:
        None when no candidate can be reached.

    >>> choose_salt([2, 1]), choose_salt([1, 1]), choose_salt([None, 7]), choose_salt([None, None])
    (1, 0, 1, None)
    """
    known = [(load, salt) for salt, load in enumerate(loads) if load is not None]
    return min(known)[1] if known else None
