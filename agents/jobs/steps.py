"""What happens to a job's events, as sentences for people: at agents, on the tree, at the master. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elf.agents.language.durations import duration

Json = dict[str, Any]
_STRAGGLERS = {
    "late": "its data rides in its next snapshot, and revises the result",
    "drop": "its data of those intervals is dropped",
    "void": "everybody's data of those intervals is dropped",
    "mirror": "a neighbour that holds its snapshots answers for it",
}
_WINDOWS = {
    "difference": "as the difference of two running totals, for all aggregates have an inverse",
    "merged": "from panes merged two by two, of which few make up a window",
    "pane": "each of which is one pane",
}


def steps_of(facts: Json) -> dict[str, list[str]]:
    """Tell what happens where, in order; of what is not known nothing is said."""
    return {"agents": _agents(facts), "tree": _tree(facts), "master": _master(facts)}


def _agents(facts: Json) -> list[str]:
    if facts["joins"]:
        late = duration(facts["lateness_ms"])
        return [f"keep no event of {facts['source']}: close each interval {late} after its end, empty, to keep time"]
    names = [column["name"] for column in facts["columns"]]
    found = []
    if facts["prefilter"]:
        texts = _listed([repr(text) for text in facts["prefilter"]])
        found.append(f"skip lines without {texts} unparsed, where neither another job nor an archive wants them")
    found.append(f"parse {', '.join(['ts', *names])} of each line, once for all jobs of {facts['source']}")
    if facts["functions"]:
        called = _listed([f"{each['name']}()" for each in facts["functions"]])
        found.append(f"call {called}, which the job brings along, in a process that can only compute")
    if facts["filter"]:
        found.append(f"keep events where {facts['filter']}")
    keys = [key["expression"] for key in facts["keys"]]
    each = f"one PAO for each interval of {duration(facts['interval_ms'])}" + (f" and {_listed(keys)}" if keys else "")
    calls = _listed([call["expression"] for call in facts["aggregates"]])
    found.append(f"reduce them to {each}" + (f", with {calls}" if calls else ""))
    copies, semantics = facts["copies"], facts["options"]["semantics"]
    copied = f"with {copies} cop{'y' if copies == 1 else 'ies'} at neighbours" if copies else "without copies"
    found.append(f"seal an interval {duration(facts['lateness_ms'])} after its end, {semantics}, {copied}")
    return found


def _tree(facts: Json) -> list[str]:
    trees = facts["options"]["trees"]
    found = [f"spread the keys over {trees} trees, each with a master"] if trees > 1 else []
    found.append("merge the PAOs of equal keys at each agent on the way: one message per interval and agent")
    waits = f"wait for stragglers {duration(facts['leap_after_ms'])}, then go on without"
    return [*found, f"{waits}: {_STRAGGLERS[facts['straggler']]}"]


def _master(facts: Json) -> list[str]:
    found = []
    if facts["window"] is None:
        found.append("add each interval to the total since the job began")
    else:
        size, slide = facts["window"]["size_ms"], facts["window"]["slide_ms"]
        made = _WINDOWS.get(facts["windows"] or "")
        found.append(f"commit each interval as a pane, and keep it for {duration(facts['retain_ms'])}")
        if facts["joins"]:
            found.append(f"ask the masters of {_listed(facts['joins'])} for the same window, and join their rows")
            made = None
        if facts["last_result"]:
            last, keys = facts["last_result"], facts["last_result"]["keys"]
            kept = f", keep rows where {last['filter']}" if last["filter"] else ""
            grouped = f", and group by {_listed(keys)}" if keys else ""
            before = f"of the window that ended {duration(slide)} before"
            found.append(f"join the PAOs of each window with the result {before}: {last['join']}{kept}{grouped}")
        found.append(f"answer windows of {duration(size)} every {duration(slide)}" + (f", {made}" if made else ""))
    clauses = [("HAVING", facts["having"]), ("ORDER BY", ", ".join(facts["order"])), ("LIMIT", facts["limit"])]
    shown = " ".join(f"{word} {value}" for word, value in clauses if value not in (None, ""))
    if shown:
        found.append(f"of each result: {shown}")
    if facts["options"]["feedback"]:
        found.append(f"send the first {facts['options']['feedback']} rows of each new result back to every agent")
    if facts["options"]["application"]:
        found.append(f"tell the application {facts['options']['application']} of each result; it speaks to every agent")
    return found


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
