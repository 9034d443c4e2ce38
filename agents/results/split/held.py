"""One job's provisional master: what it answers from, and how its results are labelled.

Every result of a window that is closed is `partial`, whatever it holds: one that the job's own master closed may have
been revised since on the other side. `side` and `term` name who answers, and in which term of the root group; OVERLAY
6.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from elf.agents.completeness.statement import of_side
from elf.agents.errors import UnknownJobError
from elf.agents.group.copies import Copy
from elf.agents.master.master import Master
from elf.agents.master.results import Result
from elf.agents.master.windows import Windows
from elf.agents.results.answerer import Answerer, rendered
from elf.agents.results.split.borrowed import BorrowedPanes
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Follow
from elf.agents.wire.records import JobRecord
from elf.overlay.contract import NEVER
from elf.overlay.ids import Contact


class Provisional(Answerer):
    """One job's provisional master.

    Args:
        job: the job as the copy knows it.
        copy: what it began with.
        master: answers from the copy's panes, and from those of the side.
        store: holds the latter.
        tree: the side's.
        term: of the root group, as far as it is known here.
        me: this agent's name and address.
        names: turns an agent id into a name for people.
    """

    def __init__(
        self,
        job: JobRecord,
        copy: Copy,
        master: Master,
        store: BorrowedPanes,
        tree: bytes,
        term: int,
        me: tuple[str, str],
        names: Callable[[str], str],
    ) -> None:
        self._job = job
        self.master = master
        self.store = store
        self.tree = tree
        self.began_with = copy.master.state
        #: Agents that have handed it something: they are asked again before all others.
        self.partners: set[Contact] = set()
        self.ended = asyncio.Event()
        self._copy = copy
        self._term = term
        self.name_of = names
        name, address = me
        self._name = name
        self._address = address
        #: Where followers go on with the job's own master, and how far that has come as agents of the side know.
        self._base = self.windows.edition, self.windows.through_ms or 0
        self._ahead = NEVER
        self._news = asyncio.Event()

    @property
    def job(self) -> JobRecord:
        """The job as the copy knows it."""
        return self._job

    @property
    def windows(self) -> Windows:
        """Of the copy's panes, and of those of the side."""
        return self.master.windows

    @property
    def is_current(self) -> bool:
        """Whether the copy is still what it was; if not, the job has a master again."""
        return self._copy.master.state is self.began_with

    def heed(self, settled: int | None) -> None:
        """Note how far an agent of the side knows verdicts of the job's own master; None: it brings nothing."""
        self._ahead = max(self._ahead, NEVER if settled is None else settled)

    def tell(self) -> None:
        """Wake followers."""
        news = self._news
        self._news = asyncio.Event()
        news.set()

    async def follow(self, request: Follow, wait_ms: int) -> Json:
        """Wait for news; the answer says by `side` and `base` that it is not the job's own master's.

        Raises UnknownJobError when there is a master again.
        """
        token, windows = self.tree.hex(), self.windows
        # The job's own master may have told a follower more than the copy has: that is not told again as partial.
        edition, after_ms, known = min(request.edition, windows.edition), request.after_ms, False
        if request.side is not None and request.side[0] == token:
            (_, edition, after_ms), known = request.side, True
        if known and windows.edition == edition:
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._news.wait()
            except TimeoutError:
                return self._told(edition, [])
            if self.ended.is_set():
                raise UnknownJobError(request.app.hex(), ())
        return self._told(*(await self.news(edition, after_ms)))

    def _told(self, edition: int, results: list[Json]) -> Json:
        return {"edition": edition, "results": results, "side": self.tree.hex(), "base": self._base}

    def rendered(self, result: Result) -> Json:
        """Return a result as the API has it: one side's, and who answers for it."""
        body = rendered(self.job.definition.key, result, self._address)
        known, window = body["completeness"], body["window"]
        is_open = window is not None and known["status"] == "open"
        body["completeness"] = of_side(known, self._lacks(window), self._name, self._term, is_open=is_open)
        return body

    def _lacks(self, window: Json | None) -> bool:
        """Whether the job's own master has counted for a window what nobody here has any more, the copy not yet."""
        interval_ms, committed = self.windows.plan.interval_ms, self.began_with.rollup.committed
        if self._ahead <= committed or window is None:
            return self._ahead > committed
        since_ms = 0 if committed == NEVER else (committed + 1) * interval_ms
        return bool(window["start_ms"] < (self._ahead + 1) * interval_ms and window["end_ms"] > since_ms)
