"""Files as people have them: logs in realistic variants, and what lies beside them and is none."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

from elf.agents.sources.catalogue import HEADED, LAYOUTS, OBJECT_WRAPPERS, WRAPPERS
from tests.agents.sources.format_files import formats

#: What is meant where its lines fit, too, as nobody can tell: that has to be named.
TWINS = {"varnish": "combined"}
ODD = "a stray line\n"
_TIME = "2026-11-26T09:00:00.123456789Z"


class Named(NamedTuple):
    """A file.

    Attributes:
        name: for people.
        data: what is in it.
        formats: what it may be taken for; empty: nothing.
    """

    name: str
    data: bytes
    formats: tuple[str, ...] = ()


def logs() -> Iterator[Named]:
    """Yield logs of all formats: as they are, with few odd lines, line ends of Windows, and in wrappers."""
    rng = random.Random(7)
    for name, entry in formats().items():
        lines = [line for sample in entry["samples"] for line in sample["line"].split("\n") if line]
        if name in HEADED or name in WRAPPERS or name in OBJECT_WRAPPERS:
            continue
        lines = [rng.choice(lines) for _ in range(15)] + lines
        own = (TWINS.get(name, name),)
        yield Named(name, _text(lines), own)
        windows = "\ufeff" + _text([*lines[:-1], lines[-1]]).decode().replace("\n", "\r\n") + ODD
        yield Named(f"{name}, of Windows, with a stray line", windows.encode(), own)
        if name in LAYOUTS and not LAYOUTS[name].twin:
            wrapper = rng.choice((*WRAPPERS, *OBJECT_WRAPPERS))
            yield Named(f"{name} in {wrapper}", _text([_in(wrapper, line) for line in lines]), (f"{wrapper}+{name}",))


def containers() -> Iterator[Named]:
    """Yield what a web server in a container writes: lines of two formats, in whatever these stand in."""
    access, error = (formats()[name]["samples"] for name in ("combined", "nginx-error"))
    lines = [sample["line"] for pair in zip(access, error, strict=False) for sample in pair] * 4
    for wrapper in (*WRAPPERS, *OBJECT_WRAPPERS):
        names = tuple(f"{wrapper}+{name}" for name in ("combined", "nginx-error"))
        yield Named(f"both logs in {wrapper}", _text([_in(wrapper, line) for line in lines]), names)


def headed() -> Iterator[Named]:
    """Yield logs with headers."""
    for name in HEADED:
        lines = [line for sample in formats()[name]["samples"] for line in sample["line"].split("\n")]
        yield Named(name, _text(lines), (name,))


def customs() -> Iterator[Named]:
    """Yield logs of servers whose administrators changed the format: of no name, or of one that reads them rightly."""
    common = '192.0.2.{} - - [26/Nov/2026:09:00:00 +0000] "GET /a?x={} HTTP/1.1" 200 51{}'
    combined = common + ' "-" "curl/8"'
    for what, line in {
        "common and microseconds": common + " {}000",
        "combined and microseconds": combined + " {}000",
        "combined and named times": combined + ' rt=0.{} uct="-"',
        "combined and a host": combined + ' "www{}.example.com"',
        "combined and two more": combined + ' "192.0.2.{}" "-"',
        "a host before combined": "www{}.example.com " + combined,
        "a list of addresses before combined": "192.0.2.{}, " + combined,
        "a time before combined": "2026-11-26T09:00:00Z {} " + combined,
        "combined of docker compose": "web-{}  | " + combined,
        "uvicorn": 'INFO:     192.0.2.{}:5 - "GET / HTTP/1.1" 200 OK',
        "rails": 'Started GET "/{}" for 192.0.2.1 at 2026-11-26 09:00:00 +0000',
        "log4j": "2026-11-26 09:00:0{},123 INFO [main] a.b.C - started",
        "postgres": "2026-11-26 09:00:0{}.123 UTC [12] LOG:  database system is ready",
        "redis": "1:M 26 Nov 2026 09:00:0{}.123 * Ready to accept connections",
        "klog": "I1126 09:00:0{}.123456       1 a.go:1] x",
        "tcpdump": "09:00:0{}.123456 IP 192.0.2.1.443 > 192.0.2.2.5: Flags [.], ack 1",
        "kernel": "[Thu Nov 26 09:00:0{} 2026] usb 1-1: new device",
    }.items():
        count = line.count("{}")
        yield Named(what, _text([line.format(*[number] * count) for number in range(1, 9)]))


def strangers() -> Iterator[Named]:
    """Yield what is no log."""
    rng = random.Random(8)
    yield Named("noise", rng.randbytes(4_000))
    yield Named("a program", b"\x7fELF\x02\x01\x01\0" + rng.randbytes(900))
    yield Named("a picture", b"\x89PNG\r\n\x1a\n" + rng.randbytes(900))
    yield Named("nothing", b"")
    yield Named("an empty line", b"\n")
    yield Named("one line", b"hello world")
    texts = {
        "prose": "It was the best of times, it was the worst of times.\nIn 1859 he wrote: time flies.\n",
        "a dump": "CREATE TABLE `a` (\n  `id` int\n);\nINSERT INTO `a` VALUES (1,'2026-11-26 09:00:00','192.0.2.1');\n",
        "Python": "import time\n\n\ndef f(ts, time=1):\n    return ts\n\nx = f(1, time=2)\n",
        "C": "#include <stdio.h>\nint main(void)\n{\n    return 0;\n}\n",
        "YAML": "ts: 2026-11-26T09:00:00Z\nname: x\nitems:\n  - a: 1\n",
        "settings": "[server]\nhost = a\nport=80\ntime=5\n",
        "an environment": "TIME=5\nA=b\nDB_URL=postgres://a:b@c/d\n",
        "Markdown": "# Title\n\nSome *text* with `code`.\n\n- a\n- b: c\n",
        "HTML": "<!DOCTYPE html>\n<html>\n<body>\n<p>x</p>\n</body>\n</html>\n",
        "users": "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n",
        "hosts": "127.0.0.1 localhost\n192.0.2.1 a.example a\n",
        "a patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
        "mail": "From a@b Thu Nov 26 09:00:00 2026\nDate: Thu, 26 Nov 2026 09:00:00 +0000\n\nHi\n",
        "commits": "commit abc\nAuthor: A <a@b>\nDate:   Thu Nov 26 09:00:00 2026 +0000\n\n    x\n",
        "metrics": '# TYPE a counter\na{x="y"} 5 1795683600000\n',
        "slow queries": "# Time: 2026-11-26T09:00:00.123Z\n# Query_time: 0.5\nSELECT 1;\n",
        "measurements by name": "time=5 cost=3\ntime=6 cost=4\n",
        "objects without a time": '{"text":"a","label":1}\n{"text":"b","label":0}\n',
        "objects with durations": '{"name":"a","time":0.5}\n{"name":"b","time":1.5}\n',
        "an object of many lines": json.dumps({"time": _TIME, "a": [1, {"b": 2}]}, indent=2) + "\n",
    }
    for name, text in texts.items():
        yield Named(name, text.encode() * 4)
    tables = {
        "people": "id,name,email\n1,Ann,a@example.com\n2,Bob,b@example.com\n",
        "days": "date,name,total\n2026-11-26,x,5\n2026-11-27,y,6\n",
        "days as numbers": "date,open,close\n20261126,1,2\n20261127,2,3\n",
        "years": "date,population\n2020,5\n2021,6\n",
        "a run": "time,heart_rate\n0.5,80\n1.0,81\n1.5,82\n",
        "hours": "time,temperature\n12:00,5\n13:00,6\n",
        "a trial": "gene\ttime\tvalue\nBRCA\t1\t2.5\nTP53\t2\t3.5\n",
    }
    for name, text in tables.items():
        yield Named(f"a table of {name}", text.encode())


def _text(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def _in(wrapper: str, line: str) -> str:
    """Return a line of a wrapper with a line in it."""
    if wrapper == "docker":
        return json.dumps({"log": line + "\n", "stream": "stdout", "time": _TIME})
    if wrapper == "journald":
        return json.dumps({"MESSAGE": line, "__REALTIME_TIMESTAMP": "1795683600000000", "_HOSTNAME": "web1"})
    heads = {
        "syslog": "Nov 26 09:00:00 web1 app[7]: ",
        "syslog-5424": "<134>1 2026-11-26T09:00:00Z web1 app 7 - - ",
        "cri": f"{_TIME} stdout F ",
    }
    return heads[wrapper] + line
