"""The fake agent as fixtures."""

from tests.elf.fake_agent import agent, guarded_agent

__all__ = ["agent", "guarded_agent"]
