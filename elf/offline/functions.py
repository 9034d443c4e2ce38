"""Installed functions on Spark: Python functions of Spark (`udf`) that call the very objects that agents call.

Only those are shared, not what calls them: Spark hands over one row at a time, vectorised functions get columns of one
row, and an aggregate gets all values of a group at once, which agents reduce in parts and merge. Spark's Python workers
import the package themselves, by its entry point: it has to be installed where they run. Times cross as microseconds,
for Spark would hand them over in the time zone of the machine.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from elf.agents.language.installed.declaration import Aggregate, Declared, Vectorised
from elf.agents.language.installed.entry_points import Origin, brief
from elf.agents.language.installed.installed import GROUP, find_aggregate, find_function, installed
from elf.agents.language.types import SqlType
from elf.cbt.foreign import is_theirs
from elf.offline.session import OfflineError

if TYPE_CHECKING:
    from pyspark.sql import Column

#: What becomes of a failure: an error, NULL, or the column tells just whether there is one.
Failing = Literal["raise", "null", "tell"]
_EPOCH = datetime.datetime(1970, 1, 1)
#: What this process, one of Spark's workers, has loaded.
_loaded: dict[tuple[str, Origin], Declared] = {}


def function_column(name: str, arguments: Sequence[Column], failing: Failing) -> Column:
    """Call an installed function of one row; the job was compiled, so the number of arguments is right."""
    made = find_function(name)
    assert made is not None
    inputs = [_given(column, kind) for column, kind in zip(arguments, made.args, strict=True)]
    returns = SqlType.BOOLEAN if failing == "tell" else made.returns
    return _called(_Call(name, installed().origins[name], failing), returns, inputs)


def aggregate_column(name: str, value: Column) -> Column:
    """Compute an installed aggregate of each group's values; all of a group are in memory."""
    from pyspark.sql import functions as F

    made = find_aggregate(name)
    assert made is not None
    values = F.collect_list(_given(value, made.args[0]))
    return _called(_Call(name, installed().origins[name], "raise"), made.returns, [values])


def aggregate_fails(name: str, value: Column) -> Column:
    """Tell whether an installed aggregate fails on a value."""
    from pyspark.sql import functions as F

    made = find_aggregate(name)
    assert made is not None
    only = F.array_compact(F.array(_given(value, made.args[0])))
    return _called(_Call(name, installed().origins[name], "tell"), SqlType.BOOLEAN, [only])


class _Call:
    """What Spark's workers call; it goes there as the names in it."""

    def __init__(self, name: str, origin: Origin, failing: Failing) -> None:
        self._name = name
        self._origin = origin
        self._failing = failing

    def __call__(self, *values: Any) -> Any:
        """Call the function for one row, or the aggregate for the values of one group."""
        made = _load(self._name, self._origin)
        try:
            answer = _aggregated(made, values[0]) if isinstance(made, Aggregate) else _answered(made, values)
        except BaseException as error:
            if not is_theirs(error):
                raise
            if self._failing == "raise":
                raise OfflineError(f"the function {self._name} fails on Spark: {brief(error)}") from None
            return True if self._failing == "tell" else None
        return False if self._failing == "tell" else answer


def _answered(made: Declared, values: Sequence[Any]) -> Any:
    given = [_read(value, kind) for value, kind in zip(values, made.args, strict=True)]
    if isinstance(made, Vectorised):
        import polars as pl

        columns = [pl.Series("", [value], kind.dtype) for value, kind in zip(given, made.args, strict=True)]
        return _written(made(*columns).item())
    assert not isinstance(made, Aggregate)
    return _written(made(*given))


def _aggregated(made: Aggregate, values: Sequence[Any]) -> Any:
    import msgpack

    if not values:
        return None
    # As it is between agents: what is not of msgpack fails, tuples are lists.
    state = msgpack.packb(made.create([_read(value, made.args[0]) for value in values]))
    return _written(made.finish(msgpack.unpackb(state, strict_map_key=False)))


def _load(name: str, origin: Origin) -> Declared:
    made = _loaded.get((name, origin))
    if made is None:
        point = importlib.metadata.EntryPoint(name, origin.value, GROUP)
        try:
            made = point.load()
        except ImportError:
            if not origin.folder or origin.folder in sys.path:
                raise
            sys.path.append(origin.folder)
            made = point.load()
        _loaded[name, origin] = made
    return made


def _read(value: Any, kind: SqlType) -> Any:
    is_time = kind is SqlType.TIMESTAMP and value is not None
    return _EPOCH + datetime.timedelta(microseconds=value) if is_time else value


def _written(answer: Any) -> Any:
    is_time = isinstance(answer, datetime.datetime)
    return (answer - _EPOCH) // datetime.timedelta(microseconds=1) if is_time else answer


def _given(column: Column, kind: SqlType) -> Column:
    """Convert an argument as the function takes it: Spark's Python functions get whatever they are given."""
    from pyspark.sql import functions as F

    column = column.cast(kind.ddl.lower())
    return F.unix_micros(column) if kind is SqlType.TIMESTAMP else column


def _called(call: _Call, returns: SqlType, inputs: Sequence[Column]) -> Column:
    from pyspark.sql import functions as F

    is_time = returns is SqlType.TIMESTAMP
    called = in_python(call, "bigint" if is_time else returns.ddl.lower(), inputs)
    return F.timestamp_micros(called) if is_time else called


def in_python(call: Callable[..., Any], returns: str, inputs: Sequence[Column]) -> Column:
    """Have Spark's Python workers call something for each row; it goes there as the names in it."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    session = SparkSession.getActiveSession()
    assert session is not None
    context = session.sparkContext
    if str(context.master).startswith("local"):
        # `python3` may be another one than that of the packages installed here.
        context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return F.udf(call, returns, useArrow=False)(*inputs)
