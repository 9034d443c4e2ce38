"""Times as their writers describe them to `strftime`: compiled to a notation, without any locale."""

from __future__ import annotations

import re

from elf.agents.errors import ConfigError
from elf.agents.sources.times.notations import Notation

#: What strftime writes, in our patterns (`elf.agents.sources.times.notations`).
_CODES = {code: f"%{code}" for code in "YmdebjyHMSIp"} | {
    "T": "%H:%M:%S",
    "F": "%Y-%m-%d",
    "D": "%m/%d/%y",
    "R": "%H:%M",
    "z": "%z",
    "Z": "%G",
    "s": "%s",
    "h": "%b",
    "a": "%a",
    "f": "%6",
    "L": "%3",
    "N": "%9",
}
#: What mod_log_config writes besides.
_WORDS = {"sec": "%s", "msec": "%Q", "usec": "%Q", "msec_frac": "%3", "usec_frac": "%6"}
_CODE = re.compile(r"%(?P<code>.)|(?P<literal>[^%]+)|(?P<wrong>%)", re.S)


def compiled_time(text: str, *, is_pattern: bool = False) -> Notation:
    """Compile a format of strftime, or one of mod_log_config's words, to a notation.

    Args:
        text: the format.
        is_pattern: it is one of our patterns already, made of several formats.

    Raises:
        ConfigError: it has a code whose text depends on a locale, or that is not known.
    """
    if text in _WORDS:
        return Notation(text, _WORDS[text], text)
    return Notation(text, text if is_pattern else "".join(map(_item, _CODE.finditer(text))), text)


def _item(match: re.Match[str]) -> str:
    if match["literal"] is not None:
        return match["literal"]
    code = match["code"]
    if code not in _CODES:
        shown = f"%{code}" if code else "%"
        raise ConfigError(f"{shown} of the time's format is not read; there are {' '.join('%' + c for c in _CODES)}")
    return _CODES[code]
