"""What commands that let Spark work share: their options, and how they write a span of event time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

PANEL = "Offline"
Archives = Annotated[
    list[str],
    typer.Option(
        "--archive",
        metavar="DIR|URL",
        help="Archive of an agent that has the source, a folder or a URL such as s3://bucket/elf; repeatable, all are "
        "needed.",
    ),
]
SparkMaster = Annotated[str, typer.Option("--master", metavar="URL", help="Spark's master.")]
SparkConf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
]
HERE = "local[*]"


def describe_span(start_ms: int, end_ms: int) -> str:
    """Write [start_ms, end_ms) for people, to the second."""
    start, end = (datetime.fromtimestamp(at_ms / 1_000, UTC) for at_ms in (start_ms, end_ms))
    return f"{start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
