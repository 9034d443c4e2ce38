"""All stores of one agent: those over its one state file, and the audit log beside it."""

from __future__ import annotations

from collections.abc import Callable

from elf.agents.host.audit_log import AuditLog
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.controls import Controls
from elf.agents.store.database import Database
from elf.agents.store.groups import GroupLogs
from elf.agents.store.held import HeldReplicas
from elf.agents.store.panes import Panes
from elf.agents.store.records import Records


class Stores:
    """What an agent has on its disk, by what it is for.

    Args:
        database: the state file.
        now_ms: wall clock.
    """

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self.audit = AuditLog(database.path.parent, now_ms)
        self.database = database
        self.checkpoints = Checkpoints(database)
        self.controls = Controls(database)
        self.groups = GroupLogs(database)
        self.held = HeldReplicas(database)
        self.panes = Panes(database)
        self.records = Records(database)
