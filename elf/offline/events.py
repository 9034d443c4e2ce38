"""The archive as a Spark DataFrame: which files a window needs, and their columns in the job's types.

Files of many agents and many days differ in columns and types; each file's manifest tells its own, so they are read
in groups of one schema and cast, as far as `elf.agents.archive.evolution` allows. A column that a file lacks is NULL in
its events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from elf.agents.archive.evolution import check_types
from elf.agents.archive.layout import ArchivedFile, list_files, source_folder
from elf.agents.archive.place import Place
from elf.agents.sources.raw_texts import raw_name
from elf.offline.archives import distinct, refuse_copies, spark_path
from elf.offline.session import OfflineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: The column with the URL of an event's file.
FILE = "__file"


def find_files(
    folders: Iterable[Place], source: str, start_ms: int | None = None, end_ms: int | None = None
) -> list[ArchivedFile]:
    """Return the files of all agents that may hold events of [start_ms, end_ms).

    Raises:
        OfflineError: no folder holds anything of this source, or two of them hold the same file.
        ArchiveError: a manifest is damaged, or a store does not answer.
    """
    archives = distinct(folders)
    if not any(source_folder(folder, source).is_dir() for folder in archives):
        places = ", ".join(map(str, archives)) or "none given"
        raise OfflineError(
            f"no archive folder holds events of source {source!r} (looked in: {places}); name them with --archive"
        )
    files = [file for folder in archives for file in list_files(folder, source, start_ms, end_ms)]
    refuse_copies(files)
    return files


def read_events(
    spark: SparkSession,
    files: Sequence[ArchivedFile],
    columns: Mapping[str, str],
    *,
    raw: Collection[str] = (),
    with_file: bool = False,
) -> DataFrame:
    """Read events with `ts` and the wanted columns; other columns are not read from disk.

    Args:
        spark: the session.
        files: the archive's.
        columns: name to SQL type.
        raw: of these what Spark makes of the texts of values that did not fit an agent's type; else they are NULL, as
            they are for the agent.
        with_file: adds the column `FILE`, the URL of the file that an event lies in.

    Raises:
        ArchiveError: a file has a column in a type that cannot be read as the wanted one.
    """
    from pyspark.sql import functions as F

    wanted = {"ts": "TIMESTAMP"} | {name: kind for name, kind in columns.items() if name != "ts"}
    check_types(files, wanted)
    names = [*wanted, *(raw_name(name) for name in wanted if name in raw)]
    groups: dict[tuple[str | None, ...], list[str]] = {}
    for file in files:
        groups.setdefault(tuple(file.entry.columns.get(name) for name in names), []).append(spark_path(file.path))
    frames = []
    for stored, paths in groups.items():
        present = {name: kind for name, kind in zip(names, stored, strict=True) if kind is not None}
        frame = spark.read.schema(_schema(present)).parquet(*paths)
        if present == wanted and not with_file:
            frames.append(frame)
            continue
        cells = [_cell(name, present.get(name), kind, raw_name(name) in present) for name, kind in wanted.items()]
        frames.append(frame.select(*cells, *([F.col("_metadata.file_path").alias(FILE)] if with_file else [])))
    return reduce(lambda one, other: one.unionByName(other), frames) if frames else _empty(spark, wanted)


def _cell(name: str, stored: str | None, wanted: str, has_raw: bool) -> Column:
    """Read a column in the wanted type; a number that does not fit is NULL, as it is when an agent reads a line.

    With `has_raw`, what did not fit the stored type is what Spark makes of its text.
    """
    from pyspark.sql import functions as F

    if stored is None:
        return F.lit(None).cast(wanted.lower()).alias(name)
    column = F.col(quoted(name))
    if (stored, wanted) == ("BIGINT", "INT"):
        column = F.when(column.between(-(2**31), 2**31 - 1), column)
    column = column.cast(wanted.lower())
    if has_raw:
        column = F.coalesce(column, F.col(quoted(raw_name(name))).cast(wanted.lower()))
    return column.alias(name)


def _schema(columns: Mapping[str, str]) -> StructType:
    from pyspark.sql import types as T

    kinds: dict[str, T.DataType] = {
        "BOOLEAN": T.BooleanType(),
        "INT": T.IntegerType(),
        "BIGINT": T.LongType(),
        "DOUBLE": T.DoubleType(),
        "STRING": T.StringType(),
        "DATE": T.DateType(),
        "TIMESTAMP": T.TimestampType(),
    }
    return T.StructType([T.StructField(name, kinds[kind]) for name, kind in columns.items()])


def quoted(name: str) -> str:
    """Return a column's name as Spark's functions take any name."""
    return "`" + name.replace("`", "``") + "`"


def _empty(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    return spark.createDataFrame([], _schema(columns))
