"""The application's side of the HTTP API: one client, blocking or asynchronous, and the records it returns."""

from elf.agent_url import DEFAULT_URL
from elf.agents.wire.result import Column, Completeness, Result, Window
from elf.client.asynchronous import AsyncClient
from elf.client.blocking import Client
from elf.client.results import Job, Leap, Member, Retirement, Stop, Tree, TreeNode, Version
from elf.overlay.struct_types import prepare_structs

__all__ = [
    "DEFAULT_URL",
    "AsyncClient",
    "Client",
    "Column",
    "Completeness",
    "Job",
    "Leap",
    "Member",
    "Result",
    "Retirement",
    "Stop",
    "Tree",
    "TreeNode",
    "Version",
    "Window",
]

# Clients may be used by several threads from the first answer on.
prepare_structs("elf")
