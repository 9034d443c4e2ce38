"""An agent in memory in the place of `Service`, for tests of the API, the client and the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from elf.agents.errors import (
    JobConflictError,
    JobError,
    JobSpecError,
    StoppedError,
    UnknownAgentError,
    UnknownJobError,
    UnknownSourceError,
)
from elf.agents.http.agent_service import Loaded
from elf.agents.intake.push import Appended
from elf.agents.intake.push_keys import PushKey
from elf.agents.jobs.explanation import explain_plan
from elf.agents.jobs.orders import Order
from elf.agents.publications.change import Wanted
from elf.agents.wire.positions import Json, Position, Positioned, Told
from tests.agents.plans import plan_of

ADDRESS = "127.0.0.1:4250"
#: When jobs are stopped here.
STOPPED_MS = 1_000_000_000_000


def make_result(job: str = "shop/top", *, end_ms: int = 60_000, revision: int = 1, **changes: Any) -> Json:
    """Make a valid result of two rows."""
    return {
        "job": job,
        "window": {"start_ms": end_ms - 30_000, "end_ms": end_ms},
        "columns": [{"name": "product", "type": "STRING"}, {"name": "clicks", "type": "BIGINT"}],
        "rows": [{"product": "tetris", "clicks": 7}, {"product": "zelda", "clicks": 5}],
        "completeness": {
            "expected": 5,
            "reported": 5,
            "missing": [],
            "late": 0,
            "shed": 0,
            "rejected": 0,
            "gaps": 0,
            "void": 0,
            "revision": revision,
            "status": "final",
            "semantics": "exactly-once",
        },
        "master": ADDRESS,
        "hops": ["127.0.0.1:4251", ADDRESS],
        "version": 1,
        **changes,
    }


class FakeService:
    """Holds jobs and results in dictionaries; `fail` makes the next calls raise it."""

    def __init__(self) -> None:
        self.fail: BaseException | None = None
        self.published: dict[tuple[str, str], Json] = {}
        #: What changes have to say beside the version.
        self.note = ""
        self.result_of: dict[tuple[str, str], Json] = {}
        self.asked: list[tuple[str, str | None, int | None]] = []
        self.ingested: list[bytes] = []
        self.keys: list[PushKey | None] = []
        self.loaded: list[Loaded] = []
        self.wanted: list[Wanted] = []
        #: Those that jobs were stopped with.
        self.orders: list[Order | None] = []
        self.purged: list[tuple[str, Order]] = []
        #: Why an agent has not purged what was to be.
        self.unpurged = ""
        self.reasons: list[str] = []
        self.followers: list[asyncio.Queue[Json | BaseException | None]] = []
        self.positions: list[Position | None] = []
        self._changed = asyncio.Event()
        self.add("shop", "top")

    def add(self, creator: str, name: str, query: str = "SELECT 1") -> Json:
        job = {
            "creator": creator,
            "name": name,
            "app_id": "ab" * 20,
            "source": "clicks",
            "master": ADDRESS,
            "state": "running",
            "version": 1,
            "query": query,
            "columns": {},
            "versions": [{"version": 1, "what": "publish", "query": query, "made_ms": 1}],
        }
        self.published[creator, name] = job
        self.result_of[creator, name] = make_result(f"{creator}/{name}")
        return job

    async def publish(
        self, text: str, filename: str, name: str | None, creator: str | None, order: Order | None = None
    ) -> Json:
        self._maybe_fail()
        if "SELEC " in text:
            raise JobSpecError("unexpected word SELEC", line=1, column=1, hint="SELECT")
        key = (creator or "nobody", name or filename.rpartition(".")[0])
        if key in self.published and self.published[key]["query"] != text:
            raise JobConflictError(f"{key[0]}/{key[1]} runs with another definition; stop it first")
        return self.add(*key, query=text)

    async def jobs(self) -> list[Json]:
        self._maybe_fail()
        return list(self.published.values())

    async def job(self, creator: str, name: str) -> Json:
        return self._find(creator, name)

    async def change(self, creator: str, name: str, wanted: Wanted, order: Order | None = None) -> Json:
        job = self._find(creator, name)
        versions = job["versions"]
        if wanted.change == "resume":
            job |= {"state": "running", "ends_ms": None}
        newest = versions[-1]
        if wanted.expected not in (None, newest["version"]):
            raise JobConflictError(f"job {creator}/{name} has version {newest['version']} now, not {wanted.expected}")
        self.wanted.append(wanted)
        number = newest["version"] + 1
        newest["until_ms"] = 60_000 * number
        query = wanted.query or wanted.definition or newest["query"]
        made = {**newest, "version": number, "what": wanted.change, "query": query, "since_ms": 60_000 * number}
        versions.append({**made, "until_ms": None, "options": dict(wanted.options)})
        return {**versions[-1], "note": self.note} if self.note else versions[-1]

    async def leap(self, creator: str, name: str, order: Order | None = None) -> Json:
        self._find(creator, name)
        return {"through_ms": 60_000, "agents": ["web3"]}

    async def force(self, creator: str, name: str) -> None:
        if (creator, name) not in self.published:
            raise JobError(f"this agent keeps no copy of {creator}/{name}")

    async def stop(self, creator: str, name: str, keep_ms: int | None = None, order: Order | None = None) -> Json:
        self.orders.append(order)
        job = self._find(creator, name)
        told = {"creator": creator, "name": name}
        if keep_ms == 0:
            del self.published[creator, name]
            return {**told, "state": "ended", "ends_ms": None}
        job |= {"state": "stopped", "ends_ms": STOPPED_MS + (keep_ms or 86_400_000)}
        return {**told, "state": "stopped", "ends_ms": job["ends_ms"]}

    async def result(self, creator: str, name: str, window: str, key: str | None, limit: int | None) -> Json:
        if self._find(creator, name)["state"] == "stopped":
            raise StoppedError(f"job {creator}/{name} is stopped; `elf resume {creator}/{name}` takes it up again")
        self.asked.append((window, key, limit))
        result = self.result_of[creator, name]
        rows = [row for row in result["rows"] if key is None or row["product"] == key]
        return {**result, "rows": rows[:limit]}

    def feedback(self, creator: str, name: str) -> Told:
        self._find(creator, name)
        body = msgspec.json.encode({**self.result_of[creator, name], "cut": 3})
        return Told(body, f"{len(body)}")

    async def route(self, creator: str, name: str, query: Any) -> Any:
        self._find(creator, name)
        if query == "secret":
            raise JobError(f"{creator}/{name}: on_route failed: KeyError: 'secret'")
        return {"asked": query}

    async def results(
        self, creator: str, name: str, position: Position | None = None
    ) -> AsyncGenerator[Positioned, None]:
        self._find(creator, name)
        self.positions.append(position)
        queue: asyncio.Queue[Json | BaseException | None] = asyncio.Queue()
        self.followers.append(queue)
        self._changed.set()
        try:
            while (item := await queue.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item, (7, item["window"]["end_ms"])
        finally:
            self.followers.remove(queue)
            self._changed.set()

    async def wait_followers(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.followers) != count:
                self._changed.clear()
                await self._changed.wait()

    async def tree(self, creator: str, name: str, part: int = 0) -> Json:
        self._find(creator, name)
        nodes = [
            {"id": "aa", "address": ADDRESS, "name": "web1", "parent": None, "role": "master"},
            {"id": "bb", "address": "127.0.0.1:4251", "name": "web2", "parent": "aa", "role": "reducer"},
            {"id": "cc", "address": "127.0.0.1:4252", "name": "web3", "parent": "bb", "role": "worker"},
        ]
        return {"root": "aa", "nodes": nodes}

    async def explain(self, creator: str, name: str) -> Json:
        job = self._find(creator, name)
        return {
            **explain_plan(plan_of()),
            "job": f"{creator}/{name}",
            "state": job["state"],
            "master": job["master"],
            "version": 2,
            "versions": [
                {"version": 1, "what": "publish", "since_ms": None},
                {"version": 2, "what": "update", "since_ms": 60_000},
            ],
            "sharing": {
                "parsing": {"jobs": ["shop/best", "shop/worst"], "count": 2},
                "filtering": {"jobs": ["shop/best"], "count": 1},
                "paos": {"jobs": ["shop/best"], "count": 1},
                "trees": {"jobs": ["shop/best"], "count": 1},
                "own_columns": ["cents"],
            },
            "tree": {"root": ADDRESS, "agents": 5, "depth": 2, "children_max": 3, "unreachable": 1, "trees": 1},
            "cost": {
                "agent": "web1",
                "open_bytes": 20_480,
                "snapshots": 4,
                "snapshot_bytes": 310,
                "panes": 7,
                "pane_rows": 12,
                "pane_rows_max": 30,
            },
        }

    async def members(self) -> list[Json]:
        self._maybe_fail()
        return [
            {
                **{"id": "aa", "agent": "id-of-web1", "address": ADDRESS, "name": "web1"},
                **{"sources": ["clicks"], "is_self": True, "release": "0.1.0"},
            }
        ]

    async def purge(self, key: str, order: Order | None) -> Json:
        self._maybe_fail()
        assert order is not None
        self.purged.append((key, order))
        agents = [{"agent": "web1", "purged": True, "why": ""}]
        if self.unpurged:
            agents.append({"agent": "web2", "purged": False, "why": self.unpurged})
        return {"purged": key, "by": "alice", "agents": agents}

    async def retire(self, agent: str, job: str | None, order: Order | None = None) -> Json:
        self._maybe_fail()
        if agent != "web3":
            raise UnknownAgentError(agent, ["web3"])
        unreachable = [] if job is not None else [{"job": job, "why": "no answer in time"} for job in ("shop/best", "")]
        gaps = [{"job": job or "shop/top", "missing_since_ms": 60_000}]
        return {"agent": "cc", "name": "web3", "jobs": gaps, "unreachable": unreachable}

    async def load(self, creator: str, name: str, loaded: Loaded, order: Order | None = None) -> Json:
        self._find(creator, name)
        self.loaded.append(loaded)
        return {"first": loaded.first, "last": loaded.last, "edition": len(self.loaded)}

    async def ingest(self, source: str, ndjson: bytes, key: PushKey | None = None) -> Appended:
        if source != "clicks":
            raise UnknownSourceError(source, ["clicks"])
        self.ingested.append(ndjson)
        self.keys.append(key)
        return Appended(len(ndjson.splitlines()), duplicate=key is not None and key in self.keys[:-1])

    async def drain(self, within_s: float) -> Json:
        self.drained_s = within_s
        return {"sources": ["access"]}

    async def cancel_drain(self) -> Json:
        return {"sources": ["access"]}

    async def reload(self) -> Json:
        return {"changed": ["sources.access"], "since_ms": STOPPED_MS}

    def health(self) -> Json:
        return {"status": "alive", "name": "web1"}

    def ready(self) -> tuple[bool, list[str]]:
        return not self.reasons, self.reasons

    def notes(self) -> list[str]:
        return ["datagrams from 10.0.0.9:4250 are not heard"]

    def metrics(self) -> bytes:
        return b"elf_build_info 1\n"

    def _find(self, creator: str, name: str) -> Json:
        self._maybe_fail()
        try:
            return self.published[creator, name]
        except KeyError:
            raise UnknownJobError(f"{creator}/{name}", [f"{c}/{n}" for c, n in self.published]) from None

    def _maybe_fail(self) -> None:
        if self.fail is not None:
            raise self.fail
