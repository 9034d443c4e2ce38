"""What can be shown to strangers of an agent that is ill: kinds of findings, figures, and the shape of its settings.

Everything is left out but what is known to say nothing of people, machines or visitors: texts of settings that are one
of a few words, numbers, and sentences that are elf's own. Names have numbers in their place. Pure, but for `versions`.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import platform
import re
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from elf.agents.settings.config import AUTO, AgentConfig
from elf.agents.sources.layouts.pasted import is_layout
from elf.agents.sources.named_layouts import is_known
from elf.agents.wire.result import Completeness
from elf.doctor.answers import Answers, Metrics
from elf.doctor.finding import Finding

#: Settings whose texts are words of elf's, durations, or zones of time.
_PLAIN = {"start", "ahead_max", "time_zone", "retain", "log_level", "ip"}
#: Labels of figures whose values are words of elf's.
_PLAIN_LABELS = {"end", "kind", "why", "role", "version", "kernels", "le"}
_OUR_METRIC, _WORD = re.compile(r"(?:elf|process)_[a-z_]{1,60}"), re.compile(r"[\w.+-]{0,40}")
_STATES = {"running", "stopped", "paused", "ended"}
_PACKAGES = ("elf-stream", "aiohttp", "cryptography", "kademlia", "msgspec", "numpy", "polars", "sqlglot")


class _Numbers:
    """Numbers in the place of names, the same one for the same name."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def of(self, kind: str, name: str) -> str:
        count = sum(each == kind for each, _ in self._known) + 1
        return self._known.setdefault((kind, name), f"{kind}-{count}")


def pack(findings: Iterable[Finding], config: AgentConfig | None, answers: Answers | None) -> bytes:
    """Return a packed archive of what can be shown.

    Args:
        findings: their kinds and reasons are in it, what they say is not.
        config: the settings, if they are known.
        answers: what the agent said, if it did.
    """
    numbers = _Numbers()
    parts: dict[str, Any] = {
        "findings.json": [{"check": each.check, "why": each.why} for each in findings],
        "versions.json": versions(),
    }
    if config is not None:
        parts["settings.json"] = _settings(msgspec.to_builtins(config), numbers)
    if answers is not None:
        parts["agent.json"] = _agent(answers, numbers)
        parts["metrics.json"] = _metrics(answers.metrics, numbers)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, content in parts.items():
            data = json.dumps(content, indent=1).encode()
            entry = tarfile.TarInfo(f"elf-doctor/{name}")
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def versions() -> dict[str, str]:
    """Return releases of elf, of what it is built on, and of the machine's software."""
    found = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    found["kernel"] = ".".join(platform.release().split(".")[:2])
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _settings(value: Any, numbers: _Numbers, name: str = "") -> Any:
    """Keep the shape of settings, their numbers, and what is one of a few words."""
    if isinstance(value, dict):
        if name == "sources":
            return {numbers.of("source", key): _settings(each, numbers) for key, each in value.items()}
        if name in ("columns", "trusted", "operators"):
            return f"({len(value)} set)"
        return {key: _settings(each, numbers, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_settings(each, numbers, name) for each in value]
    if isinstance(value, bool | int | float) or value is None or value == "":
        return value
    if name in _PLAIN:
        return value
    if name == "format":
        return value if value == AUTO or (is_known(value) and not is_layout(value)) or value == "json" else "(pasted)"
    return "(set)"


def _agent(answers: Answers, numbers: _Numbers) -> dict[str, Any]:
    from elf.doctor.running import check_of

    return {
        "answers": answers.health is not None,
        "refused": answers.refused,
        "reasons": [check_of(each) for each in answers.reasons],
        "notes": len(answers.notes),
        "members": [_release(member) for member in answers.members],
        "jobs": [_job(job, answers, numbers) for job in answers.jobs],
    }


def _release(member: Mapping[str, Any]) -> str:
    """Return an agent's release; another agent may say what it likes, so what is none is left out."""
    release = str(member.get("release", ""))
    return release if len(release) <= 20 and release.replace(".", "").isdigit() else "(another)"


def _job(job: Mapping[str, Any], answers: Answers, numbers: _Numbers) -> dict[str, Any]:
    key = f"{job.get('creator')}/{job.get('name')}"
    known = answers.results.get(key, {}).get("completeness")
    told: dict[str, Any] = {
        "job": numbers.of("job", key),
        "state": state if (state := str(job.get("state"))) in _STATES else "(another)",
        "troubled": bool(job.get("trouble")),
    }
    if isinstance(known, dict):
        counts = {name: known.get(name) for name in Completeness.__struct_fields__}
        told |= {name: value for name, value in counts.items() if isinstance(value, bool | int | float)}
        told["missing"] = len(missing) if isinstance(missing := known.get("missing"), list) else 0
    return told


def _metrics(metrics: Metrics, numbers: _Numbers) -> list[list[Any]]:
    found: list[list[Any]] = []
    for (name, labels), value in metrics.items():
        if not _OUR_METRIC.fullmatch(name):
            continue
        told = {
            label: text if label in _PLAIN_LABELS and _WORD.fullmatch(text) else numbers.of(label, text)
            for label, text in labels
        }
        found.append([name, told, value if value == value and abs(value) != float("inf") else str(value)])
    return found
