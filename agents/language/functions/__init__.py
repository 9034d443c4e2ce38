"""The job language's scalar functions, each with Spark's name and Spark's meaning."""

from __future__ import annotations

# Importing a module declares its functions.
from elf.agents.language.functions import conditionals, dates, maths, regexes, strings, urls  # noqa: F401
from elf.agents.language.functions.registry import Call, Entry, find, function_names, is_taken, refusal

__all__ = ["Call", "Entry", "find", "function_names", "is_taken", "refusal"]
