"""All commands of `elf`: where each is, in which panel, and what it does in a sentence.

Help and completion are made of this, so that neither loads a command: its module is imported when it runs.
A test holds that modules say the same.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: its name, the module of `elf.cli` that adds it, and the first paragraph of its docstring."""

    name: str
    module: str
    summary: str


#: In the order in which they are shown.
PANELS: dict[str, tuple[Entry, ...]] = {
    "Begin": (
        Entry(
            "demo",
            "demo",
            "Show elf on this machine: a made-up shop, its live top ten, and an agent that fails. Leaves nothing "
            "behind.",
        ),
        Entry(
            "init",
            "init",
            "Put an agent in place: find the logs of this server, and write settings and a secret. What is there "
            "stays.",
        ),
    ),
    "Agents": (
        Entry("agent", "agent", "Run an agent until SIGTERM or Ctrl-C."),
        Entry(
            "reload",
            "life_cycle",
            "Have the agent read its settings again; they hold as a whole when this returns, or nothing changes "
            "(exit 78).",
        ),
        Entry(
            "drain",
            "life_cycle",
            "Take the agent out of service: it reads no more, hands on what is open, and ends; no window waits for it.",
        ),
        Entry(
            "schema",
            "agent",
            "Print the JSON Schema of configuration or job files: editors complete TOML by it.",
        ),
        Entry(
            "doctor",
            "doctor",
            "Say what is wrong with an agent, why that matters, and the command that mends it. Changes nothing.",
        ),
        Entry(
            "validate",
            "agent",
            "Check a configuration or job file; of a configuration also the folders and files that it names, as "
            "this user.",
        ),
        Entry(
            "keygen",
            "keys",
            "Create a cluster secret, an API token or a key to sign with: 32 random bytes as hex, for its owner alone.",
        ),
        Entry(
            "certgen",
            "keys",
            "Create a certificate for one agent, and the cluster's CA if there is none yet; or revoke one.",
        ),
        Entry(
            "backup",
            "backup",
            "Copy an agent's results, jobs and settings into one file, while it runs; without secrets, and without "
            "logs.",
        ),
        Entry(
            "restore",
            "backup",
            "Make an agent's data folder of a backup. It is a new agent, which keeps the results and reads its logs "
            "again.",
        ),
        Entry(
            "audit",
            "oversight",
            "List who did what through an agent: published, changed, stopped, retired, purged, or was refused.",
        ),
        Entry(
            "purge",
            "oversight",
            "Erase a job of anybody's, or what is known of an agent, on all agents; takes an operator's key.",
        ),
    ),
    "Jobs": (
        Entry("sign", "keys", "Print a job file with its functions signed, so that whoever publishes it needs no key."),
        Entry("publish", "jobs", "Publish a job; every agent that has its source joins in."),
        Entry(
            "jobs",
            "jobs",
            "List the jobs: those that run, and those that are stopped and can be resumed, with how long.",
        ),
        Entry("top", "top", "Show a job's newest window, live: its rows, how complete they are, and how late."),
        Entry("query", "jobs", "Ask a job for one result; exit code 1 if it has no rows."),
        Entry(
            "watch",
            "jobs",
            "Follow a job's results until interrupted; a table that refreshes, or one JSON line per result.",
        ),
        Entry("members", "jobs", "List the agents that the asked one knows and that answer, 256 at most."),
        Entry("tree", "jobs", "Draw a job's reducer tree from its root, the job's master."),
        Entry(
            "stop",
            "jobs",
            "Stop a job on all agents; for a day `elf resume` takes it up again, then it ends for good.",
        ),
        Entry(
            "retire",
            "jobs",
            "Say that an agent is gone for good: no job waits for it any more; if it comes back it is admitted again.",
        ),
        Entry(
            "force",
            "jobs",
            "Let this agent go on alone with a job most of whose root group is gone for good: for disasters only.",
        ),
        Entry("update", "changes", "Change a running job: on all agents, from one interval on."),
        Entry("rollback", "changes", "Let a running job go on as an earlier version of it."),
        Entry("reset", "changes", "Empty a running job's windows, together on all agents: they begin anew."),
        Entry("pause", "changes", "Let a running job count nothing, until it is resumed; windows say so."),
        Entry(
            "resume",
            "changes",
            "Let a paused or stopped job go on; what came meanwhile is not counted, and windows say so.",
        ),
        Entry(
            "leap",
            "changes",
            "Wait no longer for agents that keep a job's result waiting; it names them, and is revised when they come.",
        ),
        Entry("history", "changes", "List a job's versions: what made each, and which events it counts."),
        Entry(
            "feedback",
            "applications",
            "Show what has come back to this very agent: a job's newest result, or what its application has published.",
        ),
        Entry("route", "applications", "Ask a job's application; prints its answer as JSON."),
        Entry(
            "explain",
            "explain",
            "Show a job's plan, what it shares with other jobs, its tree and its cost; a file's plan needs no agent.",
        ),
    ),
    "Offline": (
        Entry("run", "run", "Run a job once over files and print its rows; no agent, no cluster."),
        Entry(
            "sample",
            "sample",
            "Say what the first lines of a file are, take one apart, and show where others stop to fit.",
        ),
        Entry(
            "verify",
            "verify",
            "Recompute published windows with Spark from the archive; exit code 1 if a cell differs and no label "
            "says why.",
        ),
        Entry(
            "backfill",
            "backfill",
            "Compute a job's windows of before it was published from the archives; can be repeated, counts "
            "nothing twice.",
        ),
        Entry(
            "pipeline",
            "pipeline",
            "Keep a job's windows as a Parquet table in step with the archives; can be interrupted and run again "
            "any time.",
        ),
    ),
    "Lab": (
        Entry(
            "lab",
            "lab",
            "See scale on a laptop: many agents' overlay in virtual time, measured. Exit code 1 if a tree is wrong.",
        ),
    ),
}
COMMANDS = {entry.name: entry for panel in PANELS.values() for entry in panel}
