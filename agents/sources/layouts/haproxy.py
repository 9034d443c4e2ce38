"""HAProxy's `log-format`: its variables as fields. LINES section 2."""

from __future__ import annotations

import re

from elf.agents.errors import ConfigError
from elf.agents.sources.layouts.layout import Layout, Part, Token, checked
from elf.agents.sources.layouts.notation import declared, field, merged

_FIELDS = {
    "ci": "remote_addr:ip",
    "cp": "remote_port:int",
    "fi": "frontend_addr:ip",
    "fp": "frontend_port:int",
    "si": "upstream_addr:ip",
    "sp": "upstream_port:int",
    "bi": "backend_addr:ip",
    "bp": "backend_port:int",
    "t": "ts:time:clf-zoneless",
    "tr": "ts:time:clf-zoneless",
    "trg": "ts:time:clf",
    "trl": "ts:time:clf",
    "T": "ts:time:clf",
    "Tl": "ts:time:clf",
    "Ts": "ts:time:epoch",
    "f": "frontend:word",
    "ft": "frontend:word",
    "b": "backend:word",
    "s": "server:word",
    "TR": "time_request_ms:int",
    "Tq": "time_request_ms:int",
    "Ti": "time_idle_ms:int",
    "Th": "time_handshake_ms:int",
    "Tw": "time_queue_ms:int",
    "Tc": "time_connect_ms:int",
    "Tr": "time_response_ms:int",
    "Td": "time_data_ms:int",
    "Ta": "request_time_ms:int",
    "Tt": "request_time_ms:int",
    "Tu": "time_user_ms:int",
    "ST": "status:status",
    "B": "bytes:bytes",
    "U": "bytes_received:int",
    "CC": "cookie_request:word",
    "CS": "cookie_response:word",
    "ts": "termination:word",
    "tsc": "termination:word",
    "ac": "active:int",
    "fc": "frontend_active:int",
    "bc": "backend_active:int",
    "sc": "server_active:int",
    "rc": "retries:int",
    "sq": "server_queue:int",
    "bq": "backend_queue:int",
    "r": "request:request",
    "HM": "method:method",
    "HP": "path:uri",
    "HQ": "query:query",
    "HU": "uri:uri",
    "HV": "protocol:protocol",
    "H": "server_name:host",
    "ID": "request_id:word",
    "pid": "pid:int",
    "rt": "request_count:int",
    "sslc": "ssl_cipher:word",
    "sslv": "ssl_protocol:word",
}
#: What is captured is in braces, or not there at all.
_CAPTURED = {"hr": "captured_request", "hs": "captured_response"}
_VARIABLE = re.compile(r"%(?:\{(?P<flags>[^}]*)\})?(?:\[(?P<sample>[^\]]*)\]|(?P<name>[A-Za-z]+))")


def read_haproxy(text: str) -> Layout:
    """Read the text of a `log-format`.

    Raises:
        ConfigError: it is ambiguous, or a variable's column cannot be named.
    """
    found: list[Token] = []
    end = 0
    for match in _VARIABLE.finditer(text):
        found.append(text[end : match.start()].replace("\\ ", " ").encode())
        end = match.end()
        if match["sample"] is not None:
            column = re.sub(r"\W+", "_", match["sample"]).strip("_").lower()
            found += _quoted([field(column, "word")], match["flags"])
            continue
        name = match["name"]
        if name in _CAPTURED:
            follows = text[end : end + 1].encode()
            found.append(Part(merged([field(_CAPTURED[name], "braced"), follows])))
            end += len(follows)
        elif name in _FIELDS:
            found += _quoted([declared(_FIELDS[name])], match["flags"])
        else:
            raise ConfigError(f"%{name} in the log-format is not known; see HAProxy's section on custom log formats")
    return checked(Layout(merged([*found, text[end:].replace("\\ ", " ").encode()])))


def _quoted(tokens: list[Token], flags: str | None) -> list[Token]:
    """Put quotes around what is written with the flag Q."""
    return [b'"', *tokens, b'"'] if flags and "+Q" in flags else tokens
