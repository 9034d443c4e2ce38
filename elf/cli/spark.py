"""What commands that let Spark work share: their options, and how they write a span of event time."""

from __future__ import annotations

from typing import Annotated

import typer

from elf.agents.language.instants import clock_time

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
    return f"{clock_time(start_ms)} to {clock_time(end_ms)} UTC"
