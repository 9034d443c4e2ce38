"""A master that is fed as the overlay would, and asked."""

from elf.agents.jobs.plan import Plan
from elf.agents.master.master import Master
from elf.agents.master.results import Span
from elf.agents.store.panes import Panes
from elf.agents.store.shared_transactions import Steps
from elf.agents.wire.positions import Json
from elf.agents.worker.payload import Notes, pack
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place
from tests.agents.plans import events, plan_of

PLAN = plan_of()


class Root:
    """Feeds a master as the overlay would."""

    def __init__(self, store: Panes, plan: Plan = PLAN) -> None:
        self.plan, self.store = plan, store
        store.create(plan.definition.app_id, b"job", b"")
        self.master = Master(plan, store, None)

    def commit(
        self,
        through: int,
        rows: list[tuple[int, str]],
        missing: tuple[str, ...] = (),
        notes: Notes | None = None,
        agents: tuple[str, ...] = ("w1", "w2"),
    ) -> None:
        self.store.finish(self.committing(through, rows, missing, notes, agents))

    def committing(
        self,
        through: int,
        rows: list[tuple[int, str]],
        missing: tuple[str, ...] = (),
        notes: Notes | None = None,
        agents: tuple[str, ...] = ("w1", "w2"),
    ) -> Steps:
        previous = self.master.state.rollup.committed
        roster = {agent: RosterEntry(admitted=NEVER) for agent in agents}
        frame = self.plan.reduce(events([(ts, product, 1) for ts, product in rows]))
        state = RollupState(committed=through, roster=roster)
        reported = tuple(agent for agent in roster if agent not in missing)
        commit = Commit(previous, through, pack(notes or Notes(), frame), reported, tuple(missing), state)
        return self.master.committing(commit, Place(1, self.master.state.applied.index + 1))

    def restart(self) -> None:
        ((_, _, state),) = self.store.masters()
        self.master = Master(self.plan, self.store, state)

    def ask(self, span: Span | None, key: str | None = None, limit: int | None = None) -> Json:
        result = self.master.windows.result(span, key, limit, str.upper)
        return {"rows": result.rows, **result.completeness}
