"""Which worker takes which tests, in what order, when several run at a time (`pytest --dist loadfile`)."""

from __future__ import annotations

import functools
import pathlib
import re
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

#: The files that share one Spark: its JVM alone wants 20 s of a core to start.
SPARK = "spark"
#: Tests that mostly wait for processes of their own.
WAITING = "tests/system/"
#: Workers that wait at a time, so that others have what cores those leave.
WAITING_MAX = 2


@functools.cache
def shares_spark(path: pathlib.Path) -> bool:
    """Tell whether a file of tests is to be where Spark is: it imports pyspark, be it for types alone."""
    return re.search(r"^\s*from pyspark", path.read_text(), re.MULTILINE) is not None


class Files(LoadScopeScheduling):
    """All tests of a file, and all with Spark, are one worker's; what takes longest is begun first."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SPARK if shares_spark(self.config.rootpath / file) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker what has Spark, else what waits unless enough others do, else the file of most tests."""
        # What a worker that crashed had done comes back, too; whoever is given nothing to do never asks again.
        for scope in [scope for scope, unit in self.workqueue.items() if all(unit.values())]:
            del self.workqueue[scope]
        if not self.workqueue:
            node.shutdown()
            return
        others = [units for other, units in self.assigned_work.items() if other is not node]
        enough = sum(any(map(_is_waited_for, units.items())) for units in others) >= WAITING_MAX

        def rank(scope: str) -> tuple[bool, bool, int]:
            return scope != SPARK, scope.startswith(WAITING) == enough, -len(self.workqueue[scope])

        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)


def _is_waited_for(unit: tuple[str, dict[str, bool]]) -> bool:
    scope, done = unit
    return scope.startswith(WAITING) and not all(done.values())
