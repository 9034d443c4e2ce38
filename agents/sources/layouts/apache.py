"""Apache's `LogFormat`, which lighttpd and Varnish share: its directives as fields. LINES section 2.3."""

from __future__ import annotations

import re

from elf.agents.errors import ConfigError
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import Field, Layout, Token, checked, notations_of
from elf.agents.sources.layouts.notation import declared, field, merged
from elf.agents.sources.times.strftime import compiled_time

_FIELDS = {
    "a": "remote_addr:ip",
    "A": "server_addr:ip",
    "B": "bytes:bytes",
    "b": "bytes:bytes",
    "D": "request_time_us:int",
    "f": "filename:quoted",
    "h": "remote_addr:addr",
    "H": "protocol:protocol",
    "I": "bytes_received:int",
    "k": "connection_requests:int",
    "l": ":ident",
    "L": "log_id:word",
    "m": "method:method",
    "O": "bytes_sent:bytes",
    "p": "server_port:int",
    "P": "pid:int",
    "q": "query:query",
    "r": "request:request",
    "R": "handler:word",
    "s": "status:status",
    "S": "bytes_transferred:int",
    "T": "request_time:number",
    "u": "remote_user:user",
    "U": "path:uri",
    "v": "server_name:host",
    "V": "host:host",
    "X": "connection_status:word",
    "^FB": "time_first_byte_us:int",
}
_WITH_ARGUMENT = {
    ("c", "a"): "peer_addr:ip",
    ("c", "h"): "peer_host:addr",
    ("canonical", "p"): "server_port:int",
    ("local", "p"): "local_port:int",
    ("remote", "p"): "remote_port:int",
    ("pid", "P"): "pid:int",
    ("tid", "P"): "tid:int",
    ("hextid", "P"): "tid_hex:hex",
    ("s", "T"): "request_time:number",
    ("ms", "T"): "request_time_ms:int",
    ("us", "T"): "request_time_us:int",
}
_NAMED = {"i": "http_", "o": "sent_http_", "e": "env_", "n": "note_", "C": "cookie_", "x": "", "c": ""}
_NAMED |= {"ti": "trailer_", "to": "sent_trailer_"}
_TEXTS = ("i", "o", "C", "n", "ti", "to")
_ALIASES = {"http_referer": "referer", "http_user_agent": "user_agent"}
_KINDS = {"http_x_forwarded_for": "addresses", "http_host": "host"}
#: These are of the request as it came, unless `>` says otherwise; all others of that which it was redirected to.
_OF_ORIGINAL = "sUTDr"
_DIRECTIVE = re.compile(
    r"%(?:!?[\d,]*)(?P<which>[<>]?)(?:\{(?P<argument>[^}]*)\})?(?P<letter>\^t[io]|\^FB|[A-Za-z%])|(?P<wrong>%\S*)"
)


def read_apache(text: str) -> Layout:
    """Read the text of a `LogFormat`; raises ConfigError if it is ambiguous, or something in it cannot be read."""
    found: list[Token] = []
    end = 0
    directives = list(_DIRECTIVE.finditer(text))
    for match in directives:
        if match["wrong"] is not None:
            raise ConfigError(f"{match['wrong']} in the log format is not read; a % of its own is written %%")
    of_final = {(each["letter"], each["argument"]) for each in directives if not _is_of_original(each)}
    for match in directives:
        found.append(text[end : match.start()].encode())
        end = match.end()
        tokens = _tokens(match["letter"], match["argument"])
        if _is_of_original(match) and (match["letter"], match["argument"]) in of_final:
            tokens = [
                token._replace(column=f"original_{token.column}")
                if isinstance(token, Field) and token.column
                else token
                for token in tokens
            ]
        found += tokens
    return checked(Layout(_joined_times(merged([*found, text[end:].encode()]))))


def _is_of_original(directive: re.Match[str]) -> bool:
    """Whether a directive is of the request as it came, not of that which it was redirected to within the server."""
    return directive["which"] == "<" or (not directive["which"] and directive["letter"] in _OF_ORIGINAL)


def _tokens(letter: str, argument: str | None) -> list[Token]:
    if letter == "%":
        return [b"%"]
    if letter == "t":
        if argument is None:
            return [b"[", field("ts", "time:clf"), b"]"]
        return [Field("ts", Kind.TIME, (compiled_time(argument.removeprefix("begin:").removeprefix("end:")),))]
    if argument is not None and (argument, letter) in _WITH_ARGUMENT:
        return [declared(_WITH_ARGUMENT[argument, letter])]
    if argument and letter.lstrip("^") in _NAMED:
        letter = letter.lstrip("^")
        name = re.sub(r"\W", "_", (_NAMED[letter] + argument).lower())
        return [field(_ALIASES.get(name, name), _KINDS.get(name, "quoted" if letter in _TEXTS else "word"))]
    return [declared(_FIELDS.get(letter, f"percent_{letter}:word"))]


def _joined_times(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Join times that only literals separate: they are parts of one.

    Raises:
        ConfigError: parts of a time stand apart, with other fields between them.
    """
    places = [place for place, token in enumerate(tokens) if isinstance(token, Field) and token.column == "ts"]
    are_whole = [field.notations == notations_of("clf") for field in _fields_at(tokens, places)]
    if any(are_whole):
        # `%t` says it all; the others are read over.
        others = {*places} - {places[are_whole.index(True)]}
        return tuple(_read_over(token) if place in others else token for place, token in enumerate(tokens))
    if len(places) < 2:
        return tokens
    between = tokens[places[0] : places[-1] + 1]
    if any(isinstance(token, Field) and token.column != "ts" for token in between):
        raise ConfigError("the parts of the time stand apart in the log format; put them side by side, or use %t")
    if any(isinstance(token, bytes) and b"%" in token for token in between):
        raise ConfigError("a % between the parts of the time is not read")
    pattern = "".join(
        token.decode() if isinstance(token, bytes) else token.notations[0].pattern
        for token in between
        if isinstance(token, bytes | Field)
    )
    whole = Field("ts", Kind.TIME, (compiled_time(pattern, is_pattern=True),))
    return (*tokens[: places[0]], whole, *tokens[places[-1] + 1 :])


def _read_over(token: Token) -> Token:
    return token._replace(column="") if isinstance(token, Field) else token


def _fields_at(tokens: tuple[Token, ...], places: list[int]) -> list[Field]:
    return [token for place in places if isinstance(token := tokens[place], Field)]
