"""The job language's scalar functions, each with Spark's name and Spark's meaning."""

from __future__ import annotations

from sqlglot import exp

from agents.jobs.functions.registry import call_function, function_names

__all__ = ["call_function", "function_names"]
