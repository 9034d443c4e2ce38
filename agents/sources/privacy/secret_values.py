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

from elf.agents.language.paths import steps_of
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
#: Keys that end so have secrets whatever stands before: `userPassword`, `apitoken`, and so has all that is in them.
_ENDINGS = (
    *("token", "secret", "password", "passwd", "passphrase", "apikey", "accesskey", "secretkey", "privatekey"),
    *("credential", "credentials", "signature", "authorization"),
)
_MARKS = b'=%\\"@'
_SCHEMES = ("basic ", "basic%20", "basic+", "bearer ", "bearer%20", "bearer+", "authorization:", "authorization :")
_PERCENT = "%(?:25)*"
#: As JSON and nginx write characters that would end a text, in a text in a text.
_ESCAPE = r"(?:\\+(?:x5c|u005c)*)+"
_NUMBER = rf"{_ESCAPE}(?:u00|x)"
_QUOTE = rf'{_ESCAPE}(?:"|x22|u0022)'
_BEGIN = rf"(?:^|[?&;#,:/|+(){{<>=\s\"'\[]|{_PERCENT}[0-9a-f]{{2}}|{_NUMBER}[0-9a-f]{{2}}|{_ESCAPE}[nrt])"
_SPACE = rf"(?:\s|\+|{_PERCENT}20)"
_EQUALS = rf"(?:=|[\s+]=[\s+]?|{_SPACE}?{_PERCENT}3d|[\s+]?{_NUMBER}3d[\s+]?)"
_OPEN, _CLOSE = rf"(?:\[|{_PERCENT}5b)", rf"(?:\]|{_PERCENT}5d)"
#: Letters, digits and what else a key may have, percent-encoded; not what ends one.
_ENCODED = rf"{_PERCENT}(?:2[de]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5[bdf])"
_PERCENT_QUOTE = rf"(?:{_PERCENT}5c)*{_PERCENT}22"
#: A text in quotes, or what may stand in a URL.
_VALUE = rf"""(?:{_QUOTE}.*$|"(?:[^"\\]|\\.)*"?|'[^'&#]*'?|[^&#\s"']+[^&#\s"]*)"""


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
        self._name = re.compile(rf"[^ ]*(?:{_words(_ENDINGS)})|(?:[^ ]*[_.-])?(?:{_words(keys)})") if keys else None
        self._kept = kept

    def names(self, column: str) -> bool:
        """Tell whether a column, in lower case, is called as secrets are: `password`, `http_x_api_key`."""
        if self._name is None or column in self._kept:
            return False
        # What is in an array, or an object, that is called so is as secret: `password[0]`, `credentials.user`.
        steps = [step for step in steps_of(column) if isinstance(step, str)] or [column]
        if any(step.endswith(_ENDINGS) for step in steps):
            return True
        is_alone = len(steps) == 1 and steps[0] in _NO_SECRETS
        return not is_alone and self._name.fullmatch(steps[-1]) is not None

    def masked(self, texts: pl.Series, *, may_authorize: bool = True) -> pl.Series:
        """Mask the secrets in texts; the very same column if there are none.

        Args:
            texts: a column of them.
            may_authorize: they may have what a header Authorization has; to look for that costs most.
        """
        if not self.has(texts, may_authorize=may_authorize):
            return texts
        # Whatever other texts the column has, what becomes of one is the same.
        for each in self._patterns if may_authorize else [each for each in self._patterns if each.marks]:
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
    parted = rf"(?:(?:[a-z0-9_.\-\[\]]|{_ENCODED})*(?:[_.\-\[]|{_PERCENT}5b))?"
    behind = rf"(?:{_CLOSE}(?:{_OPEN}[a-z0-9_.-]*{_CLOSE})*|(?:{_OPEN}[a-z0-9_.-]*{_CLOSE})+)?"
    key = rf"(?:(?:[a-z0-9_.\-\[\]]|{_ENCODED})*(?:{_words(_ENDINGS)})|{parted}(?:{_words(keys)})){behind}"
    # Letters that need no percent-encoding are encoded by who wants to pass by patterns.
    encoded = rf"(?:(?:[a-z0-9_.\-\[\]]|{_ENCODED})*(?:{_encoded(_ENDINGS)})|{parted}(?:{_encoded(keys)})){behind}"
    text, scalar = r'"(?:[^"\\]|\\.)*(?:"|$)', r"[-0-9tf][^\s,}\]]*"
    # Of an address in a URL's front: what ends its name and password, percent-encoded or not, is no part of them.
    part = rf"(?:[^/\s@:\"?#%&]|{_PERCENT}(?:[01457-9a-f][0-9a-f]|2[0-246-9a-e]|3[0-9b-e]|6[0-9a-f]))"
    slashes = rf"(?://|{_PERCENT}2f{_PERCENT}2f|{_ESCAPE}/{_ESCAPE}/)"
    return [
        _Secret(rf"(?is)({_BEGIN}{key}{_EQUALS}){_VALUE}", "${1}" + MASK, b"=%\\"),
        _Secret(rf"(?is)({_BEGIN}{encoded}{_EQUALS}){_VALUE}", "${1}" + MASK, b"%", rf"{_PERCENT}(?:[4-7]|2[dD])"),
        # What an authorization server gives for a token; shorter ones are countries, languages and states.
        _Secret(rf"(?i)({_BEGIN}code{_EQUALS})[^&#\s\"]{{6,}}", "${1}" + MASK, b"=%\\", r"(?i)code[=%\\]"),
        _Secret(rf'(?is)("{key}"\s*:\s*)(?:{text}|{scalar})', f'${{1}}"{MASK}"', b'"'),
        _Secret(rf'(?is)("{key}"\s*:\s*)[\[{{].*$', f'${{1}}"{MASK}"', b'"'),
        _Secret(rf"(?is)({_QUOTE}{key}{_QUOTE}\s*:\s*)[^\s,n}}\]].*$", "${1}" + MASK, b"\\"),
        _Secret(
            rf"(?i)({_PERCENT_QUOTE}{encoded}{_PERCENT_QUOTE}{_SPACE}*(?::|{_PERCENT}3a))[^&#\s\"]+",
            "${1}" + MASK,
            b"%",
            f"{_PERCENT}22",
        ),
        # A user's password before a host, and what the header Authorization has.
        _Secret(rf"(?i)({slashes}{part}*:)[^/\s@\"]+@", "${1}" + MASK + "@", b"@"),
        _Secret(
            rf"(?i)({slashes}{part}*{_PERCENT}3a){part}+({_PERCENT}40)", "${1}" + MASK + "${2}", b"%", "%(?:25)*40"
        ),
        _Secret(r"(?i)(\b(?:basic|bearer)(?:\s|%20|\+)+)[a-z0-9+/=._~%-]{8,}", "${1}" + MASK, b""),
        _Secret(r"(?i)(authorization\s?:\s*(?:(?:basic|bearer)\s+)?)[^\s*][^\r\n]*", "${1}" + MASK, b""),
    ]


def _words(keys: Sequence[str] | set[str]) -> str:
    return "|".join(re.escape(key.lower()) for key in sorted(set(keys), key=len, reverse=True))


def _encoded(keys: Sequence[str]) -> str:
    """Return the pattern of keys some letters of which may be percent-encoded."""
    return "|".join(map(_letters, sorted(set(keys), key=len, reverse=True)))


def _letters(key: str) -> str:
    return "".join(rf"(?:{re.escape(letter)}|{_PERCENT}{_hex(letter)})" for letter in key.lower())


def _hex(letter: str) -> str:
    codes = sorted({f"{ord(form):02x}" for form in (letter.lower(), letter.upper())})
    return codes[0] if len(codes) == 1 else f"(?:{'|'.join(codes)})"
