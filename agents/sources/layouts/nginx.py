"""nginx's `log_format`: its variables as fields. LINES section 2.2."""

from __future__ import annotations

import re

from elf.agents.sources.layouts.kinds import NO_TEXTS, Kind
from elf.agents.sources.layouts.layout import Field, Layout, Token, checked
from elf.agents.sources.layouts.notation import declared, field, merged

#: Variables and their columns and kinds; of the others the column has the variable's name.
_FIELDS = {
    "remote_addr": "remote_addr:ip",
    "realip_remote_addr": "realip_remote_addr:ip",
    "remote_user": "remote_user:user",
    "time_local": "ts:time:clf",
    "time_iso8601": "ts:time:iso",
    "msec": "ts:time:epoch",
    "request": "request:request",
    "status": "status:status",
    "body_bytes_sent": "bytes:bytes",
    "bytes_sent": "bytes_sent:bytes",
    "request_length": "request_length:int",
    "request_time": "request_time:number",
    "gzip_ratio": "gzip_ratio:number",
    "http_referer": "referer:quoted",
    "http_user_agent": "user_agent:quoted",
    "http_x_forwarded_for": "http_x_forwarded_for:addresses",
    "proxy_add_x_forwarded_for": "proxy_add_x_forwarded_for:addresses",
    "http_host": "http_host:host",
    "host": "host:host",
    "server_name": "server_name:host",
    "server_addr": "server_addr:ip",
    "request_method": "method:method",
    "request_uri": "uri:uri",
    "uri": "path:uri",
    "args": "query:quoted",
    "query_string": "query:quoted",
    "server_protocol": "protocol:protocol",
    "upstream_addr": "upstream_addr:upstreams",
    "upstream_status": "upstream_status:statuses",
    "pid": "pid:int",
}
_NUMBERS = re.compile(r"upstream_(?:\w+_time|response_length|bytes_\w+)")
_INTEGERS = re.compile(r"\w+_port|connection\w*|tcpinfo_\w+")
_TEXTS = re.compile(r"(?:http|sent_http|cookie|arg|upstream_http|upstream_cookie)_\w+")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<bare>\w+))")


def read_nginx(text: str, escape: str = "default") -> Layout:
    """Read the text of a `log_format`.

    Args:
        text: with its variables.
        escape: how the server escapes values. By `default`, one that is missing is a hyphen; by `json` it is nothing,
            and by `none`, too, where a text between quotes ends where the rest of the line fits.

    Raises:
        ConfigError: it is ambiguous.
    """
    found: list[Token] = []
    end = 0
    # Texts of objects are pasted without what is around them, too.
    may_lack = frozenset(Kind) if escape != "default" else NO_TEXTS if text.lstrip().startswith("{") else frozenset()
    for match in _VARIABLE.finditer(text):
        found.append(text[end : match.start()].encode())
        end = match.end()
        made = _field(match["braced"] or match["bare"])
        if made.kind is Kind.QUOTED and escape == "none":
            made = made._replace(kind=Kind.LOOSE)
        found.append(made._replace(may_lack=made.kind in may_lack))
    return checked(Layout(merged([*found, text[end:].encode()])))


def _field(name: str) -> Field:
    """Make the field of a variable."""
    if name in _FIELDS:
        return declared(_FIELDS[name])
    if _NUMBERS.fullmatch(name):
        return field(name, "numbers")
    if _INTEGERS.fullmatch(name):
        return field(name, "int")
    return field(name, "quoted" if _TEXTS.fullmatch(name) else "word")
