"""What a terminal shows of a report."""

from __future__ import annotations

import io

from rich.console import Console

from elf.offline.verify.report import Report


def shown(report: Report, width: int = 120) -> str:
    """Return it without colours."""
    out = io.StringIO()
    Console(file=out, width=width).print(report)
    return out.getvalue()
