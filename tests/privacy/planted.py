"""Secrets in texts, as clients, servers and applications write them: keys times encodings times places."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from urllib.parse import quote

from elf.agents.sources.privacy.secret_values import SECRET_KEYS

#: What every planted secret begins with, however it is encoded.
SIGN = "Zq9planted"
#: Keys of which the endings tell, after whatever stands before.
LONG = ("userPassword", "apiToken", "X-Amz-Security-Token", "clientSecret", "my_credentials", "Authorization")


def _scattered(text: str, rng: random.Random) -> str:
    """Percent-encode some letters that need not be."""
    return "".join(f"%{ord(each):02x}" if each.isalpha() and rng.random() < 0.5 else each for each in text)


#: How a key and its value stand in a text.
FORMS: dict[str, Callable[[str, str], str]] = {
    "query": lambda key, value: f"/a?b=1&{key}={quote(value)}&end=1",
    "first": lambda key, value: f"{key}={quote(value)}",
    "fragment": lambda key, value: f"/cb#{key}={quote(value)}",
    "cookie": lambda key, value: f"theme=dark; {key}={quote(value)}",
    "matrix": lambda key, value: f"/a;{key}={quote(value)}?b=1",
    "array": lambda key, value: f"/a?{key}[]={quote(value)}&{key}[0]={quote(value)}",
    "nested": lambda key, value: f"/a?user[{key}]={quote(value)}&{key}[x][y]={quote(value)}",
    "list": lambda key, value: f"got (a=1,{key}={quote(value)})",
    "quoted": lambda key, value: f'msg="x" {key}={json.dumps(value)} n=1',
    "spaced": lambda key, value: f"set {key} = {quote(value)}",
    "object": lambda key, value: json.dumps({"n": 1, key: value}),
    "compact": lambda key, value: json.dumps({key: value, "n": 1}, separators=(",", ":")),
    "deep": lambda key, value: json.dumps({"a": [{"b": {key: value}}]}),
    "values": lambda key, value: json.dumps({key: [value, {"c": value}]}),
    "within": lambda key, value: json.dumps({key: {"any": {"thing": value}}}),
    "text": lambda key, value: json.dumps({"log": json.dumps({"m": json.dumps({key: value})})}),
    "message": lambda key, value: "refused " + json.dumps({key: value}) + " of a client",
}
#: What becomes of a whole text on its way.
WAYS: dict[str, Callable[[str, random.Random], str]] = {
    "as it is": lambda text, _: text,
    "in a URL": lambda text, _: f"/r?next={quote(text, safe='')}&x=1",
    "in a URL in a URL": lambda text, _: f"/r?next={quote(quote(text, safe=''), safe='')}",
    "in nginx's log": lambda text, _: text.replace("\\", "\\x5C").replace('"', "\\x22"),
    "in a text": lambda text, _: json.dumps(text)[1:-1],
    "with numbers for signs": lambda text, _: text.replace("&", r"\u0026").replace("=", r"\u003d"),
}
#: Secrets that no key tells.
BY_THEMSELVES: dict[str, Callable[[str], str]] = {
    "user of a URL": lambda value: f"https://ann:{value}@h/p?b=1",
    "user of a URL, encoded": lambda value: "/r?u=" + quote(f"https://ann:{value}@h/p", safe=""),
    "user of a URL in JSON": lambda value: '{"u":"https:\\/\\/ann:' + value + '@h"}',
    "basic": lambda value: f"asked with Basic {value}==, refused",
    "bearer": lambda value: f"h=Bearer%20{value}.x.y",
    "header": lambda value: f"authorization: Token {value}",
    "code": lambda value: f"/cb?code={value}&state=x",
}


def secret(rng: random.Random) -> str:
    """Draw a secret, as tokens and passwords are; with signs that have to be encoded in URLs."""
    return (
        SIGN + "".join(rng.choices("abcXYZ0189_-.~", k=rng.randrange(0, 20))) + rng.choice(["", "", "+/=", "!x", "é"])
    )


def planted(rng: random.Random) -> tuple[str, str]:
    """Draw a text with a secret in it; returns how it was made, too."""
    if rng.random() < 0.1:
        name = rng.choice(list(BY_THEMSELVES))
        return name, BY_THEMSELVES[name](SIGN + "".join(rng.choices("abcXYZ0189_-.~", k=8)))
    key = rng.choice((*SECRET_KEYS, *LONG))
    key = rng.choice((key, key.upper(), key.title(), f"x_{key}"))
    form, way = rng.choice(list(FORMS)), rng.choice(list(WAYS))
    if rng.random() < 0.2 and form in ("query", "first", "cookie", "fragment"):
        key = _scattered(key, rng)
    return f"{key}, {form}, {way}", WAYS[way](FORMS[form](key, secret(rng)), rng)
