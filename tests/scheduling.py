"""Which worker takes which tests, in what order, when several run at a time (`pytest --dist loadgroup`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

#: Tests that mostly wait for processes of their own.
WAITING = "tests/system/"
#: Workers that wait at a time, so that others have what cores those leave.
WAITING_MAX = 2


class Files(LoadScopeScheduling):
    """All tests of a file, or of a group (`xdist_group`), are one worker's; what takes longest is begun first."""

    def _split_scope(self, nodeid: str) -> str:
        _, at, group = nodeid.rpartition("@")
        return group if at and "]" not in group else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the first group, else what waits unless enough workers do, else the file of most tests."""
        self.workqueue.move_to_end(min(self.workqueue, key=self._rank), last=False)
        super()._assign_work_unit(node)

    def _rank(self, scope: str) -> tuple[bool, bool, int]:
        waits = scope.startswith(WAITING)
        return scope.endswith(".py"), waits == self._enough_wait(), -len(self.workqueue[scope])

    def _enough_wait(self) -> bool:
        begun = [units for units in self.assigned_work.values() if any(map(self._is_waited_for, units.items()))]
        return len(begun) >= WAITING_MAX

    @staticmethod
    def _is_waited_for(unit: tuple[str, dict[str, bool]]) -> bool:
        scope, done = unit
        return scope.startswith(WAITING) and not all(done.values())
