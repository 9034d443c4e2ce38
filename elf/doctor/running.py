"""From what an agent says of itself to what is wrong with it. Pure.

An agent says in a sentence why it is not ready; here that gets its kind, why it matters, and the command that mends it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from elf.doctor.answers import Answers
from elf.doctor.finding import Check, Finding

#: A job whose newest result is so far behind the newest event of its source stands still: far above any window's slide
#: and lateness that is usual, and shown to grow.
STALLED_S = 600.0
#: Of the files that a process may open, the share that makes it a matter of time.
FILES_SHARE, FILES_MIN = 0.8, 1_024
_RESTART, _RELOAD = "systemctl restart elf-agent", "elf reload"
#: What a sentence is about, by words of it; the first that fits.
_KINDS: tuple[tuple[re.Pattern[str], Check], ...] = (
    (re.compile(r"^runs on the settings of "), Check.STALE),
    (re.compile(r"certificate|\bTLS\b|speaks without", re.IGNORECASE), Check.CERTIFICATE),
    (re.compile(r"\bversion\b|\brelease\b"), Check.VERSION),
    (re.compile(r"secret|no seal"), Check.SECRET),
    (re.compile(r"\bclocks?\b"), Check.CLOCK),
    (re.compile(r"No space left|disk quota|disk is full", re.IGNORECASE), Check.DISK),
    (re.compile(r"Too many open files"), Check.FILES),
    (re.compile(r"^source \S+: .*\bfit\b|rejected"), Check.FORMAT),
    (re.compile(r"^source "), Check.LOG),
    (re.compile(r"^jobs? "), Check.JOB),
    (re.compile(r"\blink\b|overlay\.join|datagrams|answers"), Check.LINK),
)
_WHY = {
    Check.CERTIFICATE: "the two ends have no link, so this agent is missing from results",
    Check.STALE: "what was changed since in its settings does not hold, until they can be read as a whole",
    Check.VERSION: "agents without a version in common are two clusters, each with results of its own",
    Check.SECRET: "agents without the same secret do not hear each other: they are two clusters",
    Check.CLOCK: "windows close by the time of day: results come late, or lack what comes after they were closed",
    Check.DISK: "a full disk stops the agent: nothing is read, and no window ends here, until there is room again",
    Check.FILES: "an agent that may open no more files neither reads rotated logs nor takes links",
    Check.FORMAT: "lines of another format are no events: they are in no result, and labels say how many were rejected",
    Check.LOG: "while a source stands still its lines are in no result",
    Check.JOB: "its windows lack this agent, or do not end",
    Check.LINK: "an agent that reaches no other is missing from their results, and has none of its own to give",
}
_MEND = {
    Check.CERTIFICATE: "elf certgen --out CERTS --address THIS-AGENT   # and " + _RELOAD,
    Check.STALE: "elf validate {settings} && elf reload",
    Check.VERSION: "elf members   # and upgrade those with the older release, one at a time",
    Check.SECRET: "sha256sum {secret}   # on both; copy the one that most have, then " + _RELOAD,
    Check.CLOCK: "timedatectl set-ntp true && timedatectl timesync-status",
    Check.DISK: "df --human-readable {data}",
    Check.FILES: "systemctl edit elf-agent   # [Service] LimitNOFILE=65536, then " + _RESTART,
    Check.FORMAT: "elf sample {log}   # and set the source's format, then " + _RELOAD,
    Check.LOG: "ls -l {log}",
    Check.JOB: "elf explain {job}",
    Check.LINK: "elf members   # and on the other server: elf doctor",
}
_NO_MAJORITY = "most agents that hold the job are out of reach: nothing of it is decided, and no window ends"
_START_OTHERS = "elf members   # and start the agents that it does not list"
_STALLED = "its windows do not end: it waits for somebody, or for something, that does not come"


def look_at_answers(answers: Answers, places: Mapping[str, str]) -> Iterator[Finding]:
    """Find what is wrong by what an agent says.

    Args:
        answers: its.
        places: what commands name: `settings`, `secret`, `data`, `log`, and `log:SOURCE` for each source; what is not
            known is named in capitals.
    """
    for sentence in answers.reasons:
        yield _said(sentence, places)
    for sentence in answers.notes:
        check = check_of(sentence)
        if check in (Check.STALE, Check.SECRET, Check.CLOCK, Check.VERSION):
            yield _said(sentence, places)
    yield from _figures(answers)
    yield from _releases(answers)
    yield from _jobs(answers)


def _said(sentence: str, places: Mapping[str, str]) -> Finding:
    check = check_of(sentence)
    named = re.match(r"(?:source|job) ([^\s:]+)", sentence)
    values = {each: each.upper() for each in ("secret", "data", "log", "job", "settings")} | dict(places)
    if named is not None:
        values |= {"job": named[1], "log": places.get(f"log:{named[1]}", values["log"])}
    quoted = {name: shlex.quote(value) for name, value in values.items()}
    return Finding(check, sentence, _WHY[check], _MEND[check].format(**quoted))


def check_of(sentence: str) -> Check:
    """Tell what a sentence of an agent is about."""
    return next((check for words, check in _KINDS if words.search(sentence)), Check.LINK)


def _figures(answers: Answers) -> Iterator[Finding]:
    opened, most = answers.figure("process_open_fds"), answers.figure("process_max_fds")
    if opened is not None and most and (opened > most * FILES_SHARE or most < FILES_MIN):
        said = f"the agent has {opened:.0f} files open, and may have {most:.0f}"
        yield Finding(Check.FILES, said, _WHY[Check.FILES], _MEND[Check.FILES])
    back_s = answers.figure("elf_clock_set_back_seconds") or 0
    if back_s > 1:
        said = f"the clock was set back by {back_s:.0f} s, which it has to catch up with"
        yield Finding(Check.CLOCK, said, _WHY[Check.CLOCK], _MEND[Check.CLOCK])
    waiting = answers.figure("elf_archive_copy_waiting_files") or 0
    failures = answers.figure("elf_archive_copy_failures_total") or 0
    if waiting and failures:
        said = f"{waiting:.0f} files of the archive wait for their copy, which has failed {failures:.0f} times"
        why = "who reads the copy lacks these events, and what is removed here for room is then nowhere"
        yield Finding(Check.ARCHIVE, said, why, "journalctl --unit elf-agent --grep archive --since -1h")
    damaged = sum(answers.labelled("elf_damaged_total").values())
    if damaged:
        said = f"the agent has found damage on its disk {damaged:.0f} times since its start"
        why = "what is damaged is set aside and named in results, but a disk that damages files goes on doing so"
        yield Finding(Check.DISK, said, why, "journalctl --unit elf-agent --grep damaged ; dmesg --level err")


def _releases(answers: Answers) -> Iterator[Finding]:
    releases = sorted({str(member.get("release"))[:20] for member in answers.members if member.get("release")})
    if len(releases) > 1:
        said = f"agents of the releases {', '.join(releases)} are in one cluster"
        why = "that is right while servers are upgraded one by one, and for no longer"
        yield Finding(Check.VERSION, said, why, _MEND[Check.VERSION])


def _jobs(answers: Answers) -> Iterator[Finding]:
    newest = answers.labelled("elf_newest_event_timestamp_seconds")
    for job in answers.jobs:
        key = f"{job.get('creator')}/{job.get('name')}"
        explain = f"elf explain {shlex.quote(key)}"
        if trouble := job.get("trouble"):
            yield Finding(Check.JOB, f"job {key}: {trouble}", _WHY[Check.JOB], explain)
        result = answers.results.get(key)
        if result is None:
            continue
        known = result.get("completeness")
        if not isinstance(known, dict):
            said = f"job {key} has no answer: {result.get('detail') or result.get('title') or 'none came'}"
            yield Finding(Check.MAJORITY, said, _NO_MAJORITY, _START_OTHERS)
        elif known.get("status") == "partial":
            said = f"job {key} has the answer of one side only"
            mend = f"{_START_OTHERS}; only if they are gone for good: elf force {shlex.quote(key)}"
            yield Finding(Check.MAJORITY, said, _NO_MAJORITY, mend)
        elif (behind_s := _behind_s(result, newest.get(str(job.get("source"))))) > STALLED_S:
            said = f"job {key}: its newest window ended {behind_s / 60:.0f} min before the newest event of its source"
            names = known.get("missing")
            missing = [str(each) for each in names][:3] if isinstance(names, list) else []
            yield Finding(Check.JOB, said + (f"; it lacks {', '.join(missing)}" if missing else ""), _STALLED, explain)


def _behind_s(result: Mapping[str, Any], newest_s: float | None) -> float:
    """Return how far a result is behind the newest event, in seconds; 0 if that is not known."""
    window = result.get("window")
    end_ms = window.get("end_ms") if isinstance(window, dict) else result.get("through_ms")
    if not newest_s or not isinstance(end_ms, int | float) or end_ms <= 0:
        return 0.0
    return newest_s - end_ms / 1000
