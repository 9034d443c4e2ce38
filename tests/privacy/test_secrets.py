"""No secret leaves an agent, whatever its privacy says: in results, archive, rejected lines, logs, metrics, labels."""

from __future__ import annotations

import asyncio
import json
import pathlib
import random

import pytest

from tests.privacy.given import Given
from tests.privacy.planted import SIGN, planted
from tests.privacy.told import told
from tests.virtual.loop import VirtualLoop

#: Shortly after agents on the virtual loop begin.
WHEN = "2023-11-14T22:13:22Z"
LINES = 120
#: nginx writes quotes in values so.
_NGINX = '$remote_addr [$time_iso8601] "$request" $status "$http_cookie" "$http_x_api_key"'


def objects(rng: random.Random) -> list[str]:
    made: list[object] = []
    for number in range(LINES):
        _, text = planted(rng)
        made += [
            {"ts": WHEN, "message": text, "n": number, "a": {"password": SIGN, "log": [text]}},
            {"ts": WHEN, "password": SIGN, "userPassword": SIGN, "n": text, "a": text},
            {"ts": "never", "message": text},
            {"ts": WHEN, "message": {"credentials": {"user": SIGN}}, "n": {"token": SIGN}},
        ]
    return [json.dumps(each) for each in made] + [f'{{"ts": "{WHEN}", "token": "{SIGN}", "mess', f"?token={SIGN} no"]


def nginx(rng: random.Random) -> list[str]:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\x5C").replace('"', "\\x22")

    made = []
    for _ in range(LINES):
        texts = (text for how, text in iter(lambda: planted(rng), None) if how not in ("basic", "bearer", "header"))
        request, cookie = (escaped(next(texts)) for _ in range(2))
        made.append(f'192.0.2.7 [{WHEN}] "GET {request.replace(" ", "+")} HTTP/1.1" 200 "{cookie}" "{SIGN}"')
    return [*made, f'192.0.2.7 [{WHEN}] "GET /a?token={SIGN} HTTP/1.1" "is cut']


@pytest.mark.parametrize("seed", [1, 2])
def test_an_agent_tells_no_secret(tmp_path: pathlib.Path, seed: int) -> None:
    rng = random.Random(seed)
    columns = {
        **dict.fromkeys(("message", "password", "userPassword", "a", "`a.password`", "`a.log[0]`"), "STRING"),
        **{"`message.credentials.user`": "STRING", "n": "BIGINT"},
    }
    sources = {
        "events": Given("json", {name.strip("`"): kind for name, kind in columns.items()}, [], objects(rng)),
        "web": Given(_NGINX, {}, [], nginx(rng)),
    }
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        found = runner.run(told(tmp_path, sources, "keep"))
    assert all("'rows': [{" in found[f"result of {name}"] for name in sources), "there are events to be told of"
    assert any(path.endswith(".parquet") for path in found) and any("/rejected/" in path for path in found)
    # What was pushed lies in the agent's own spool as it came, until it is read and that begins anew.
    spools = {path for path in found if "/push/" in path}
    leaks = [
        f"{where}: ...{text[max(0, at - 150) : at + 40]!r}"
        for where, text in found.items()
        if where not in spools and (at := text.find(SIGN)) >= 0
    ]
    assert leaks == []
