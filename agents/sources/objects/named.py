"""The formats of objects that have a name: each is a declaration of paths. LINES section 3; docs/FORMATS.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from elf.agents.language.types import SqlType

URI, PATH, QUERY = "uri", "path", "query"
_ADDRESSES = frozenset(("remote_addr", "peer_addr", "upstream_addr"))
_TYPES = {"status": SqlType.INT, "bytes": SqlType.BIGINT, "request_time": SqlType.DOUBLE}
_TYPES["request_time_ns"] = SqlType.BIGINT


class Objects(NamedTuple):
    """A format of objects.

    Attributes:
        time: the path to the event time.
        paths: to the values of columns; `path` and `query` are made of `uri`.
        requires: columns without which a line is of another format.
        seconds: columns in seconds that are made of one in ns.
    """

    time: str
    paths: Mapping[str, str]
    requires: tuple[str, ...] = ("method", URI)
    seconds: Mapping[str, str] = {}

    @property
    def columns(self) -> dict[str, SqlType]:
        """Every column with its type."""
        types = {name: _TYPES.get(name, SqlType.STRING) for name in self.paths}
        return types | dict.fromkeys(self.seconds, SqlType.DOUBLE) | dict.fromkeys((PATH, QUERY), SqlType.STRING)

    @property
    def addresses(self) -> frozenset[str]:
        """The columns that hold addresses."""
        return _ADDRESSES & set(self.paths)


OBJECTS: Mapping[str, Objects] = {
    "caddy": Objects(
        "ts",
        {
            "remote_addr": "request.client_ip",
            "peer_addr": "request.remote_ip",
            "method": "request.method",
            "host": "request.host",
            "uri": "request.uri",
            "protocol": "request.proto",
            "status": "status",
            "bytes": "size",
            "request_time": "duration",
            "remote_user": "user_id",
            "user_agent": "request.headers['User-Agent'][0]",
            "referer": "request.headers['Referer'][0]",
        },
    ),
    "traefik-json": Objects(
        "StartUTC",
        {
            "remote_addr": "ClientHost",
            "remote_user": "ClientUsername",
            "method": "RequestMethod",
            "host": "RequestHost",
            "uri": "RequestPath",
            "protocol": "RequestProtocol",
            "status": "DownstreamStatus",
            "bytes": "DownstreamContentSize",
            "request_time_ns": "Duration",
            "router": "RouterName",
            "upstream_addr": "ServiceAddr",
        },
        seconds={"request_time": "request_time_ns"},
    ),
    "cloudflare": Objects(
        "EdgeStartTimestamp",
        {
            "remote_addr": "ClientIP",
            "method": "ClientRequestMethod",
            "host": "ClientRequestHost",
            "uri": "ClientRequestURI",
            "protocol": "ClientRequestProtocol",
            "status": "EdgeResponseStatus",
            "bytes": "EdgeResponseBytes",
            "user_agent": "ClientRequestUserAgent",
            "referer": "ClientRequestReferer",
            "request_id": "RayID",
        },
    ),
    "gitlab": Objects(
        "time",
        {
            "remote_addr": "remote_ip",
            "remote_user": "username",
            "method": "method",
            "uri": "path",
            "status": "status",
            "request_time": "duration_s",
            "controller": "controller",
            "action": "action",
        },
        # Many programs have a method and a path.
        requires=("method", URI, "status", "request_time"),
    ),
}


def object_name(name: str) -> str | None:
    """Return the name of a format of objects by its name in any case; None if it is none."""
    shape = name.lower().replace("_", "-")
    return shape if shape in OBJECTS else None
