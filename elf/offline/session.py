"""A Spark session that behaves as the job language demands and keeps quiet.

Owns the checks before Spark starts (Java, pyspark), the session's settings, and where the JVM's log goes. Everything
about Spark's types that mypy cannot see stays behind `pyspark.sql`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from elf.agents.errors import ElfError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
SPARK_MIN = 4
_INSTALL_SPARK = "install it with: pip install 'elf-stream[spark]'"
_INSTALL_JAVA = f"install Java {JAVA_MIN} or 21 (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"
#: What the job language means by its words: no ANSI errors, and time in UTC (DESIGN section 4).
#: And a file that is gone or damaged is an error, never left out in silence.
_MEANING = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Else each call of pyspark's tells the JVM which line of ours made it, in three calls more; nobody is shown that.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Windows are small beside a cluster's default of 200 tasks a shuffle.
    "spark.sql.shuffle.partitions": "4",
    # An agent's checkpoint closes its files, so windows are made of many small ones: look at them here, not by a job
    # of the cluster, and put many into one task.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.files.openCostInBytes": "65536",
}


class OfflineError(ElfError):
    """Spark cannot run here, or the archive cannot be read as asked."""


def open_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark, or take the session this process already has.

    Args:
        master: `local[*]`, or a cluster's `spark://HOST:PORT`.
        conf: further Spark settings; they cannot change what a job means.

    Raises:
        OfflineError: Java or pyspark is missing or too old, or the master cannot be reached.
    """
    check_pyspark()
    # Every refused query would be printed with the whole stack of the JVM; the exception tells enough.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        for key, value in _MEANING.items():
            active.conf.set(key, value)
        return active
    check_java()
    settings = _DEFAULTS | (_LOCAL if master.startswith("local") else {}) | dict(conf or {}) | _MEANING
    builder = SparkSession.builder.master(master).appName("elf")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _standard_error_to_file() as log:
        try:
            return builder.getOrCreate()
        except (PySparkException, PySparkRuntimeError, Py4JError, OSError) as error:
            reason = _last_line(log) or str(error)
            raise OfflineError(f"Spark did not start on master {master!r}: {reason}") from None


def parse_conf(words: Iterable[str]) -> dict[str, str]:
    """Read settings of Spark as people write them, KEY=VALUE.

    Raises:
        OfflineError: one is not, or would change what a job means.
    """
    settings: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.startswith("spark."):
            raise OfflineError(f"--conf {word!r} is no setting of Spark; write it like spark.executor.memory=4g")
        if key in _MEANING and value != _MEANING[key]:
            raise OfflineError(f"--conf {key} is {_MEANING[key]!r} for all jobs: it decides what their queries mean")
        settings[key] = value
    return settings


def check_pyspark() -> None:
    """Check that pyspark is here and new enough.

    Raises:
        OfflineError: it is not; the text says what to install.
    """
    try:
        import pyspark
    except ImportError:
        raise OfflineError(f"this command needs pyspark, which is not installed; {_INSTALL_SPARK}") from None
    if int(pyspark.__version__.split(".")[0]) < SPARK_MIN:
        raise OfflineError(f"pyspark {pyspark.__version__} is too old, {SPARK_MIN}.0 is needed; {_INSTALL_SPARK}")


def check_java() -> None:
    """Check that a Java new enough for Spark is here.

    Raises:
        OfflineError: it is not; the text says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise OfflineError(f"Spark needs Java, and there is no `java` on the PATH; {_INSTALL_JAVA}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OfflineError(f"{java} does not run ({error}); {_INSTALL_JAVA}") from None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None or int(match[1]) < JAVA_MIN:
        version = match[1] if match else said.strip().partition("\n")[0] or "unknown"
        raise OfflineError(f"{java} is Java {version}, Spark needs {JAVA_MIN} or newer; {_INSTALL_JAVA}")


@contextlib.contextmanager
def in_one_sentence() -> Iterator[None]:
    """Let what fails inside Spark be one sentence, its first cause.

    Raises:
        OfflineError: Spark could not finish: a file is gone or unreadable, executors were lost, memory ran out.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Of our own, raised in one of Spark's Python workers: a function of the job.
        ours = [
            line.partition(f"{OfflineError.__name__}: ")[2] for line in lines if f".{OfflineError.__name__}: " in line
        ]
        if ours:
            raise OfflineError(ours[-1][:500]) from None
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        raise OfflineError(f"Spark could not finish: {[*lines[:1], *causes][-1][:500]}") from None


@contextlib.contextmanager
def _standard_error_to_file() -> Iterator[Path]:
    """Let a process started meanwhile, the JVM, write its standard error to a file that nobody has to read.

    Spark's launcher prints a dozen lines before any of its log settings count, and keeps the handle for good.
    """
    handle, name = tempfile.mkstemp(prefix="elf-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(handle, 2)
        yield Path(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)
        Path(name).unlink()


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if "Exception" in line or "Error" in line]
    return lines[-1].strip() if lines else ""
