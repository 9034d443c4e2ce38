"""The job language's scalar functions, each with Spark's name and Spark's meaning."""

from __future__ import annotations

# Importing a module declares its functions.
from elf.agents.language.functions import conditionals, dates, maths, regexes, strings, urls  # noqa: F401
from elf.agents.language.functions.registry import call_function, check_calls, check_function, function_names, is_taken

__all__ = ["call_function", "check_calls", "check_function", "function_names", "is_taken"]
