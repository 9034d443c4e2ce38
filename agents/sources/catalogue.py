"""The formats that have a name: each is a declaration. LINES section 3; README lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

COMMON = r'%h %l %u %t "%r" %>s %b'
COMBINED = COMMON + r' "%{Referer}i" "%{User-Agent}i"'
_NGINX = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
_PROXIED = (
    "{status:status} - {method:method} {scheme:word} {host:host} "
    '"{uri:uri}" [Client {remote_addr:ip}] [Length {bytes:bytes}] [Gzip {gzip_ratio:number}] '
)
_TIMERS = "{time_queue_ms:int}/{time_connect_ms:int}"
_COUNTS = (
    "{active:int}/{frontend_active:int}/{backend_active:int}/{server_active:int}/{retries:int} "
    "{server_queue:int}/{backend_queue:int}"
)
_TRAEFIK = (
    '{{remote_addr:addr}} {{:ident}} {{remote_user:user}} [{{ts:time:clf}}] "{{request:request}}" {{status:status}} '
    "{{bytes:bytes}} {{referer:qtext}} {user_agent} {{request_count:int}} {{router:qtext}} "
    "{{upstream_url:qtext}} {{request_time:duration}}"
)
_BALANCED = (
    "{elb:word} {remote_addr:ip}:{remote_port:int} {target:upstreams} {request_processing_time:number} "
    "{target_processing_time:number} {response_processing_time:number} {status:status} {upstream_status:statuses} "
    '{bytes_received:int} {bytes:bytes} "{request:request}" "{user_agent:quoted}" {ssl_cipher:word} {ssl_protocol:word}'
)


class Named(NamedTuple):
    """A format of layouts.

    Attributes:
        layouts: as `elf.agents.sources.layouts.pasted` reads them; the first that fits a line is its own.
        absolute: requests may name scheme and host.
        twin: the format that its lines fit, too, and that is meant unless this one is named.
        also: layouts of older releases, tried last.
        sign: a pattern that nine of ten lines of it have, and those that fit it by chance have not.
    """

    layouts: tuple[str, ...]
    absolute: bool = False
    twin: str = ""
    sign: bytes = b""
    also: tuple[str, ...] = ()


LAYOUTS = {
    "common": Named((COMMON,)),
    "combined": Named((COMBINED,)),
    "nginx-main": Named((_NGINX + ' "$http_x_forwarded_for"',)),
    "vhost_combined": Named((r'%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"',)),
    "vhost_common": Named(("%v " + COMMON,)),
    "lighttpd": Named((r'%h %V %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"',), twin="combined"),
    "varnish": Named((COMBINED,), absolute=True, twin="combined"),
    "rack": Named(
        (
            '{remote_addr:addr} {:ident} {remote_user:user} [{ts:time:clf}] "{request:request}" {status:status} '
            "{bytes:bytes} {request_time:number}",
        ),
        sign=rb"[.e][0-9+-]+$",  # of a second; Apache's %D behind `common` are whole microseconds
    ),
    "werkzeug": Named(
        (
            '{remote_addr:ip} {:ident} {remote_user:user} [{ts:time:clf-space}] "{request:request}" {status:status} '
            "{bytes:bytes}",
        )
    ),
    "nginx-ingress": Named(
        (
            _NGINX + " $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] "
            "$upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id",
        )
    ),
    "nginx-proxy-manager": Named(
        (
            "[{ts:time:clf}] {upstream_cache_status:word} {upstream_status:statuses} "
            + _PROXIED
            + '[Sent-to {server:word}] "{user_agent:quoted}" "{referer:quoted}"',
            "[{ts:time:clf}] " + _PROXIED + '"{user_agent:quoted}" "{referer:quoted}"',
        )
    ),
    "apache-ssl": Named((r'%t %h %{SSL_PROTOCOL}x %{SSL_CIPHER}x "%r" %b',)),
    "traefik": Named(
        (_TRAEFIK.format(user_agent='"{user_agent:loose}"'),),
        also=(_TRAEFIK.format(user_agent="{user_agent:qtext}"),),
    ),
    "envoy": Named(
        (
            '[{ts:time:iso}] "{method:method} {uri:word} {protocol:protocol}" {status:status} {response_flags:word} '
            "{bytes_received:int} {bytes:bytes} {request_time_ms:int} {upstream_time_ms:int} "
            '"{http_x_forwarded_for:quoted}" "{user_agent:quoted}" "{request_id:quoted}" "{host:quoted}" '
            '"{upstream_addr:quoted}"',
        )
    ),
    "haproxy": Named(
        (
            "{remote_addr:ip}:{remote_port:int} [{ts:time:clf-zoneless}] {frontend:word} {backend:word}/{server:word} "
            + "{time_request_ms:int}/"
            + _TIMERS
            + "/{time_response_ms:int}/{request_time_ms:int} {status:status} {bytes:bytes} {cookie_request:word} "
            "{cookie_response:word} {termination:word} "
            + _COUNTS
            + ' {?{captured_request:braced} ?}{?{captured_response:braced} ?}"{request:request}"',
        )
    ),
    "haproxy-tcp": Named(
        (
            "{remote_addr:ip}:{remote_port:int} [{ts:time:clf-zoneless}] {frontend:word} {backend:word}/{server:word} "
            + _TIMERS
            + "/{request_time_ms:int} {bytes:bytes} {termination:word} "
            + _COUNTS,
        )
    ),
    "squid": Named(
        (
            "{ts:time:epoch} {request_time_ms:int~} {remote_addr:addr} {result:word}/{status:status} {bytes:bytes} "
            "{method:method} {uri:word} {remote_user:word} {hierarchy:word}/{peer:word} {content_type:word}",
        ),
        absolute=True,
    ),
    "alb": Named(
        (
            "{type:word} {ts:time:iso} "
            + _BALANCED
            + ' {target_group:word} "{trace_id:quoted}" "{domain:quoted}" "{certificate:quoted}" {rule_priority:word} '
            '{created:word} "{actions:quoted}" "{redirect_url:quoted}" "{error_reason:quoted}" ...',
        ),
        absolute=True,
    ),
    "elb": Named(("{ts:time:iso} " + _BALANCED,), absolute=True),
    "s3": Named(
        (
            "{bucket_owner:word} {bucket:word} [{ts:time:clf}] {remote_addr:ip} {requester:word} {request_id:word} "
            "{operation:word} {key:word} {request:qrequest} {status:status} {error_code:word} {bytes:bytes} "
            "{object_size:int} {request_time_ms:int} {turn_around_ms:int} {referer:qtext} {user_agent:qtext} "
            "{version_id:word} ...",
        )
    ),
    "nginx-error": Named(
        ("{ts:time:slashes} [{level:word}] {pid:int}#{tid:int}: {?*{connection:int} ?}{message:rest}",)
    ),
    "apache-error": Named(
        (
            "[{ts:time:ctime}] [{module:word}:{level:word}] [pid {pid:int}{?:tid {tid:int}?}] "
            "{?[client {remote_addr:ip}:{remote_port:int}] ?}{message:rest}",
            "[{ts:time:ctime}] [{level:ident}] {?[client {remote_addr:ip}] ?}{message:rest}",
        )
    ),
}

#: Formats whose header lines name the columns.
HEADED = ("w3c", "cloudfront", "gcs", "csv")
#: Those of them that are told by a name in their headers, so that no other format is meant.
SIGNED = ("cloudfront", "gcs")

#: Formats whose lines are names and values.
PAIRS = ("ltsv", "logfmt")

#: Wrappers: the last field of each is a line of another format, or a text.
WRAPPERS = {
    "syslog": (
        "{?<{priority:int}>?}{ts:time:syslog|iso} {syslog_host:word} {program:word}{?[{pid:int}]?}: {message:rest}"
    ),
    "syslog-5424": (
        "<{priority:int}>{:int} {ts:time:iso} {syslog_host:word} {program:word} {pid:word} {message_id:word} "
        "- {?\ufeff?}{message:rest}"
    ),
    "cri": "{ts:time:iso} {stream:stream} {:part} {message:rest}",
}


class Object(NamedTuple):
    """A wrapper of objects.

    Attributes:
        text: the field with a line of another format, or a text.
        time: the field with the time.
        fields: of each column around the text the field.
        has_parts: a text without a final newline goes on in the next one.
    """

    text: str
    time: str
    fields: Mapping[str, str]
    has_parts: bool = False


JOURNAL = "journald"
OBJECT_WRAPPERS = {
    "docker": Object("log", "time", {"stream": "stream"}, has_parts=True),
    JOURNAL: Object(
        "MESSAGE",
        "__REALTIME_TIMESTAMP",
        {"syslog_host": "_HOSTNAME", "unit": "_SYSTEMD_UNIT", "priority": "PRIORITY"},
    ),
}

#: The journal's entries in a framing of their own, with the columns that its objects have.
EXPORTED = "journal-export"

#: Other names of formats, in lower case, with hyphens: GoAccess's.
ALIASES = {
    "vcombined": "vhost_combined",
    "vcommon": "vhost_common",
    "awsalb": "alb",
    "awselb": "elb",
    "awss3": "s3",
    "iis": "w3c",
    "cloudstorage": "gcs",
    "tsv": "csv",
    "traefikclf": "traefik",
    "traefik-clf": "traefik",
}


def canonical(name: str) -> str:
    """Return the name of a format by any of its names, in any case; the name itself if it is none."""
    shape = _shape(name)
    return next((known for known in (*LAYOUTS, *HEADED, *PAIRS) if _shape(known) == shape), ALIASES.get(shape, name))


def _shape(name: str) -> str:
    return name.lower().replace("_", "-")
