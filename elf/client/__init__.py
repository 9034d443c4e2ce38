"""The application's side of the HTTP API: one client, blocking or asynchronous, and the records it returns."""

from elf.client.asynchronous import DEFAULT_URL, AsyncClient
from elf.client.blocking import Client
from elf.client.results import (
    Column,
    Completeness,
    Job,
    Leap,
    Member,
    Result,
    Retirement,
    Tree,
    TreeNode,
    Version,
    Window,
)

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
    "Tree",
    "TreeNode",
    "Version",
    "Window",
]
