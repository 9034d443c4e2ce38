"""Secrets in texts: found by the key that they have, by the name of their column, or by their own form.

What is masked is rather too much than too little. URLs hold URLs, percent-encoded once or more; JSON may write `&` as a
number; texts of objects hold objects as texts. Where a value ends is doubtful then, so it is taken to be longer rather
than shorter: to the end, if need be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from elf.agents.sources.privacy.marks import marks_held

#: Stands for a text that was there.
MASK = "***"
#: Keys whose values are secrets, alone or after `-`, `_`, `.` or `[`: `token` means `X-Amz-Security-Token`, too.
SECRET_KEYS = (
    *("token", "accesstoken", "authtoken", "csrftoken", "idtoken", "refreshtoken", "sessiontoken", "jwt"),
    *("secret", "clientsecret", "pass", "passwd", "password", "passphrase", "pwd", "otp", "pin"),
    *("apikey", "api_key", "api-key", "access_key", "secret_key", "private_key", "accesskey", "secretkey"),
    *("auth", "authorization", "credential", "credentials", "signature", "sig", "hmac"),
    *("auth_code", "authcode", "authorization_code", "code_verifier", "device_code", "reset_code"),
    *("session", "sessionid", "session_id", "sid", "jsessionid", "phpsessid"),
)
#: Columns called just so stay: sessions are what people count, and the others say as well how a login went.
_NO_SECRETS = frozenset(("auth", "pass", "pin", "sig", "session", "sessionid", "session_id", "sid"))
_MARKS = b'=%\\"@'
_SCHEMES = ("basic ", "basic%20", "basic+", "bearer ", "bearer%20", "bearer+")
_PERCENT = "%(?:25)*"
_BEGIN = rf"(?:^|[?&;#\s\"]|{_PERCENT}(?:3f|26|23|3b)|\\+u0026|\\+u003f|\\+[nrt])"
_EQUALS = rf"(?:=|{_PERCENT}3d|\\+u003d)"


class _Secret(NamedTuple):
    """A pattern of secrets.

    Attributes:
        pattern: of a key and its value, the key in group 1.
        instead: what takes their place.
        marks: bytes of which each text that fits has one; none: it has one of `_SCHEMES`.
        gate: a pattern that is found faster, and in each text that fits.
    """

    pattern: str
    instead: str
    marks: bytes
    gate: str = ""

    def is_in(self, texts: pl.Series) -> bool:
        """Tell whether a text has such a secret."""
        if self.gate and not texts.str.contains(self.gate).any():
            return False
        return bool(texts.str.contains(self.pattern).any())


class Secrets:
    """Finds secrets and masks them.

    Args:
        keys: what their keys are called, in any case; without one there are no secrets.
        kept: columns, in lower case, that are called like a key and hold no secrets.
    """

    def __init__(self, keys: Sequence[str], kept: frozenset[str] = frozenset()) -> None:
        self._patterns = _patterns(keys) if keys else []
        self._name = re.compile(rf"(?:[^ ]*[_.\-\[\]'])?(?:{_words(keys)})['\]]*") if keys else None
        self._kept = kept | _NO_SECRETS

    def names(self, column: str) -> bool:
        """Tell whether a column, in lower case, is called as secrets are: `password`, `http_x_api_key`."""
        return self._name is not None and column not in self._kept and self._name.fullmatch(column) is not None

    def masked(self, texts: pl.Series, *, may_authorize: bool = True) -> pl.Series:
        """Mask the secrets in texts; the very same column if there are none.

        Args:
            texts: a column of them.
            may_authorize: they may have what a header Authorization has; to look for that costs most.
        """
        if not self.has(texts, may_authorize=may_authorize):
            return texts
        for each in self._patterns:
            texts = texts.str.replace_all(each.pattern, each.instead)
        return texts

    def has(self, texts: pl.Series, *, may_authorize: bool = True) -> bool:
        """Tell whether a text has a secret in it; that most columns have none is found out fast."""
        if not self._patterns:
            return False
        # Without one of these there is no value; looking into each text takes five times as long.
        held = marks_held(texts, _MARKS)
        marked = [each for each in self._patterns if held & set(each.marks)]
        if may_authorize and texts.str.contains_any([*_SCHEMES], ascii_case_insensitive=True).any():
            marked += [each for each in self._patterns if not each.marks]
        return any(each.is_in(texts) for each in marked)


def _patterns(keys: Sequence[str]) -> list[_Secret]:
    """Return the patterns of secrets: as URLs have them, with a `=`; as objects do, with a `:`; by themselves."""
    before = rf"(?:[a-z0-9_.\-\[\]%]*(?:[_.\-\[]|{_PERCENT}5b))?"
    key = rf"{before}(?:{_words(keys)})(?:\]|{_PERCENT}5d)?"
    # Letters that need no percent-encoding are encoded by who wants to pass by patterns.
    encoded = rf"[a-z0-9_.\-\[\]]*(?:{'|'.join(map(_encoded, sorted(set(keys), key=len, reverse=True)))})"
    text, scalar = r'"(?:[^"\\]|\\.)*(?:"|$)', r"[-0-9tf][^\s,}\]]*"
    return [
        _Secret(rf"(?i)({_BEGIN}{key}{_EQUALS})[^&#\s\"]+", "${1}" + MASK, b"=%\\"),
        _Secret(rf"(?i)({_BEGIN}{encoded}{_EQUALS})[^&#\s\"]+", "${1}" + MASK, b"%", rf"{_PERCENT}(?:[4-7]|2[dD])"),
        # What an authorization server gives for a token; shorter ones are countries, languages and states.
        _Secret(rf"(?i)({_BEGIN}code{_EQUALS})[^&#\s\"]{{6,}}", "${1}" + MASK, b"=%\\", r"(?i)code[=%\\]"),
        _Secret(rf'(?is)("{key}"\s*:\s*)(?:{text}|{scalar})', f'${{1}}"{MASK}"', b'"'),
        _Secret(rf'(?is)("{key}"\s*:\s*)[\[{{].*$', f'${{1}}"{MASK}"', b'"'),
        _Secret(rf'(?is)(\\+"{key}\\+"\s*:\s*)[^\s,n}}\]].*$', "${1}" + MASK, b"\\"),
        # A user's password before a host, and what the header Authorization has.
        _Secret(rf"((?://|{_PERCENT}2[fF]{_PERCENT}2[fF])[^/\s@:\"?#]*:)[^/\s@\"]+@", "${1}" + MASK + "@", b"@"),
        _Secret(r"(?i)(\b(?:basic|bearer)(?:\s|%20|\+)+)[a-z0-9+/=._~%-]{8,}", "${1}" + MASK, b""),
    ]


def _words(keys: Sequence[str] | set[str]) -> str:
    return "|".join(re.escape(key.lower()) for key in sorted(set(keys), key=len, reverse=True))


def _encoded(key: str) -> str:
    """Return the pattern of a key some letters of which may be percent-encoded."""
    return "".join(rf"(?:{re.escape(letter)}|{_PERCENT}{_hex(letter)})" for letter in key.lower())


def _hex(letter: str) -> str:
    codes = sorted({f"{ord(form):02x}" for form in (letter.lower(), letter.upper())})
    return codes[0] if len(codes) == 1 else f"(?:{'|'.join(codes)})"
