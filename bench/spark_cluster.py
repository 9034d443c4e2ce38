"""A standalone Spark cluster on loopback, from the pyspark that is installed: a master and workers of one core each."""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator

import pyspark

START_S = 60.0
_CLASSES = "org.apache.spark.deploy"


@contextlib.contextmanager
def standalone(workers: int, memory: str = "1g") -> Iterator[str]:
    """Start a cluster, yield its URL, and end it.

    Raises:
        RuntimeError: it did not start.
    """
    program = str(pathlib.Path(pyspark.__file__).parent / "bin" / "spark-class")
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    with tempfile.TemporaryDirectory(prefix="elf-spark-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)

        def start(what: str, *arguments: str) -> pathlib.Path:
            log = folder / f"{what}.log"
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [program, *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder
                )
            stack.callback(_end, process)
            return log

        log = start("master", f"{_CLASSES}.master.Master", *host, "--port", "0")
        url = _find(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            work = ["--cores", "1", "--memory", memory, "--work-dir", str(folder / f"work-{number}")]
            log = start(f"worker-{number}", f"{_CLASSES}.worker.Worker", *host, *work, url)
            _find(log, r"(Successfully registered with master)")
        yield url


def _find(log: pathlib.Path, pattern: str) -> str:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if (found := re.search(pattern, log.read_text(errors="replace"))) is not None:
            return found.group(1)
        time.sleep(0.1)
    raise RuntimeError(f"Spark's {log.stem} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
