"""Layouts of log lines: literals and typed fields, each of which knows where it ends (LINES sections 1 and 2)."""
