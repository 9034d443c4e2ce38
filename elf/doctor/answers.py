"""What an agent says of itself when asked: whether it is ready, its figures, its jobs, their newest results."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elf.agents.runtime import TOKEN_NAME
from elf.agents.settings.config import AgentConfig, split_address

TIMEOUT_S = 5.0
#: Of so many jobs results are asked for, and for so long in all.
JOBS_MAX, RESULTS_S = 50, 20.0
_BYTES_MAX = 16 << 20
_SAMPLE = re.compile(r"^([a-z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Metrics = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass(slots=True)
class Answers:
    """What an agent has said.

    Attributes:
        url: of its API.
        health: who it is; None: it does not answer.
        silent: why it does not.
        refused: it lets us ask nothing but whether it lives.
        reasons: why it is not ready.
        notes: what else it says.
        metrics: name and labels -> value.
        members: that it knows.
        jobs: the listed ones.
        results: job -> its newest result, or why there is none.
    """

    url: str
    health: Mapping[str, Any] | None = None
    silent: str = ""
    refused: bool = False
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    metrics: Metrics = field(default_factory=dict)
    members: list[Mapping[str, Any]] = field(default_factory=list)
    jobs: list[Mapping[str, Any]] = field(default_factory=list)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def figure(self, name: str) -> float | None:
        """Return a figure without labels; None if there is none."""
        return self.metrics.get((name, ()))

    def labelled(self, name: str) -> dict[str, float]:
        """Return a figure with one label, by its value."""
        return {labels[0][1]: value for (each, labels), value in self.metrics.items() if each == name and labels}


def url_of(config: AgentConfig) -> str:
    """Return where an agent's API is asked on its own machine; empty if only the agent knows its port."""
    host, port = split_address(config.api.bind)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}" if port else ""


def token_of(config: AgentConfig) -> str | None:
    """Return the API's token if it is where the settings say, and this user may read it."""
    file = config.api.token_file or os.path.join(config.agent.data, TOKEN_NAME)
    try:
        return Path(file).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def ask(url: str, token: str | None) -> Answers:
    """Ask an agent all there is; what it does not answer is left out.

    Args:
        url: of its API.
        token: of the API; None: none is sent.
    """
    found = Answers(url)
    # No proxy: an agent is asked where it is.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(path: str) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(url + path, headers=headers)
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read(_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(_BYTES_MAX)

    def value(path: str) -> Any:
        status, body = get(path)
        found.refused = found.refused or status in (401, 403)
        try:
            return json.loads(body)
        except ValueError:
            return {}

    try:
        health = value("/healthz")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        found.silent = str(getattr(reason, "strerror", None) or reason)
        return found
    if not isinstance(health, dict) or health.get("status") != "alive":
        found.silent = "what answers there is no agent of elf"
        return found
    found.health = health
    try:
        _ask_more(found, get, value)
    except (OSError, ValueError) as error:
        found.silent = f"it answers no more: {error}"
    return found


def _ask_more(found: Answers, get: Any, value: Any) -> None:
    ready = value("/readyz")
    found.reasons = _texts(ready, "reasons")
    found.notes = _texts(ready, "notes")
    status, body = get("/metrics")
    found.refused = found.refused or status in (401, 403)
    if found.refused:
        return
    found.metrics = read_metrics(body.decode(errors="replace"))
    found.members = _rows(value("/v1/members"), "members")
    found.jobs = _rows(value("/v1/jobs"), "jobs")
    end_s = time.monotonic() + RESULTS_S
    for job in found.jobs[:JOBS_MAX]:
        if time.monotonic() > end_s:
            break  # those that do not answer have been waited for long enough
        if job.get("state") == "running":
            key = f"{job.get('creator')}/{job.get('name')}"
            told = value(f"/v1/jobs/{key}/result?limit=1")
            found.results[key] = told if isinstance(told, dict) else {}


def read_metrics(text: str) -> Metrics:
    """Read metrics of the Prometheus text format; lines that are none are left out."""
    found: Metrics = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        try:
            found[sample[1], tuple(_LABEL.findall(sample[2] or ""))] = float(sample[3])
        except ValueError:
            continue
    return found


def _texts(told: Any, name: str) -> list[str]:
    """Return a list of texts; a stranger is told only how many there are."""
    texts = told.get(name, []) if isinstance(told, dict) else []
    return [str(each) for each in texts] if isinstance(texts, list) else []


def _rows(told: Any, name: str) -> list[Mapping[str, Any]]:
    rows = told.get(name, []) if isinstance(told, dict) else []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
