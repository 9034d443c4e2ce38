"""An agent looked at as a whole: its file, its machine, its logs, and what it says of itself. Changes nothing."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from elf.agents.errors import ConfigError
from elf.agents.settings.config import AgentConfig
from elf.doctor.access import agents_user
from elf.doctor.answers import Answers, ask, token_of, url_of
from elf.doctor.finding import Check, Finding
from elf.doctor.logs import look_at_logs
from elf.doctor.running import look_at_answers
from elf.doctor.surroundings import look_at_access, look_at_certificates, look_at_disk, look_at_ports, read_settings
from elf.installation import unit

#: Settings that were written while the agent was reading them are those that it runs with.
_WRITTEN_S = 2.0


@dataclass(slots=True)
class Examined:
    """What was found, and what it was found by.

    Attributes:
        config: the settings; None if there are none, or they are wrong.
        answers: of the agent; None if nobody knows where to ask.
        findings: in the order in which they are worth mending.
    """

    config: AgentConfig | None = None
    answers: Answers | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_silent(self) -> bool:
        """Whether no agent answers."""
        return self.answers is None or self.answers.health is None


def examine(file: Path | None, url: str | None, token: str | None) -> Examined:
    """Examine an agent.

    Args:
        file: its settings; None: only the agent is asked.
        url: of its API; None: where the settings say.
        token: of its API; None: what the settings name.
    """
    found = Examined()
    if file is not None:
        found.config, wrong = read_settings(file)
        found.findings += wrong
    config = found.config
    if url is None and config is not None:
        url = url_of(config)
    if url:
        found.answers = ask(url, token or (token_of(config) if config is not None else None))
    if config is not None:
        found.findings += _around(config, runs=not found.is_silent)
    if found.answers is not None:
        found.findings += _of_answers(found.answers, config, file)
    found.findings = [_without_service(each, file) for each in _once(found.findings)]
    return found


def _without_service(finding: Finding, file: Path | None) -> Finding:
    """Name the command that runs an agent where systemd does not."""
    if "systemctl" not in finding.mend or unit.is_there():
        return finding
    run = f"elf agent --config {shlex.quote(str(file))}" if file is not None else "elf agent ..."
    mend = finding.mend.replace("systemctl restart elf-agent", f"{run}   # in the place of the one that runs")
    return structs.replace(finding, mend=mend.replace("systemctl start elf-agent", run))


def _around(config: AgentConfig, *, runs: bool) -> Iterator[Finding]:
    user = agents_user(Path(config.agent.data))
    yield from look_at_disk(config)
    yield from look_at_access(config, user)
    if not runs:
        yield from look_at_ports(config)
    yield from look_at_certificates(config, datetime.datetime.now(datetime.UTC))
    yield from look_at_logs(config, user)


def _of_answers(answers: Answers, config: AgentConfig | None, file: Path | None) -> Iterator[Finding]:
    if answers.health is None:
        why = "nothing is counted here, and labels of results name this agent as missing"
        said = f"no agent answers at {answers.url}: {answers.silent}"
        yield Finding(Check.AGENT, said, why, "systemctl start elf-agent")
        return
    if answers.refused:
        why = "what it knows of itself is told to its own user, to root, and to who has the token"
        yield Finding(Check.AGENT, f"the agent at {answers.url} lets this user ask nothing", why, "sudo elf doctor")
    places: dict[str, str] = {}
    if config is not None:
        places = {f"log:{name}": source.path for name, source in config.sources.items() if source.path}
        places |= {"data": config.agent.data}
        places |= {"secret": config.overlay.secret_file} if config.overlay.secret_file else {}
    places |= {"settings": str(file)} if file is not None else {}
    yield from look_at_answers(answers, places)
    # An agent of a release that cannot read its settings again has those of its start.
    since_s = answers.figure("elf_config_loaded_timestamp_seconds") or answers.figure("process_start_time_seconds")
    if file is not None and since_s is not None:
        try:
            written_s = file.stat().st_mtime
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror}") from None
        if written_s > since_s + _WRITTEN_S:
            when = datetime.datetime.fromtimestamp(written_s, datetime.UTC)
            said = f"{file} was changed at {when:%Y-%m-%d %H:%M:%S} UTC, after the agent has read it"
            why = "the agent runs on the settings that it has read last"
            yield Finding(Check.STALE, said, why, f"elf validate {shlex.quote(str(file))} && elf reload")


def _once(findings: list[Finding]) -> list[Finding]:
    """Leave out what is said twice, by us and by the agent, of one thing."""
    order = {check: place for place, check in enumerate(Check)}
    kept: list[Finding] = []
    for each in sorted(findings, key=lambda finding: order[finding.check]):
        if not any(each.what == other.what for other in kept):
            kept.append(each)
    return kept
