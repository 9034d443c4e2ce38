"""Keys and texts as TOML has them. Pure."""

from __future__ import annotations

import json
import re

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def quoted(text: str) -> str:
    """Return a text in quotes; JSON differs in one character only."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """Return a key, in quotes where it needs them."""
    return name if _BARE_KEY.fullmatch(name) else quoted(name)
