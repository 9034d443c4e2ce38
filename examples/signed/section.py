"""Which part of the shop a path is in, for the job beside this file."""

import re


def section(path: str) -> str | None:
    """Return what follows /shop/; None for paths elsewhere."""
    found = re.match("/shop/([a-z]+)/", path)
    return found[1] if found else None
