"""Peers in C++ for `scripts/bench cbt`: compiled where a compiler and the tables' headers are, run on a pipe."""

from __future__ import annotations

import json
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import polars as pl
from cbt_meter import pin
from cbt_workloads import FOLDER, Input, Workload, difference_from_truth

_SOURCE = Path(__file__).resolve().parent / "cbt_peers.cpp"
#: Engine: the macro that chooses it, the Debian package with its headers, and of what pkg-config knows the libraries.
NATIVE = {
    "sparse": ("PEER_SPARSE", "libsparsehash-dev", None),
    "absl": ("PEER_ABSL", "libabsl-dev", "absl_flat_hash_map"),
    "robin": ("PEER_ROBIN", "robin-map-dev", None),
}
_COMPILER = ("g++", "-O2", "-std=c++17")


def build(engine: str) -> tuple[Path | None, str]:
    """Compile one peer if it is not yet; returns the program, or None and what is missing."""
    macro, package, library = NATIVE[engine]
    if shutil.which(_COMPILER[0]) is None:
        return None, f"no compiler: apt-get install {_COMPILER[0]} {package}"
    program = FOLDER / f"cbt-{engine}"
    if program.exists() and program.stat().st_mtime > _SOURCE.stat().st_mtime:
        return program, ""
    FOLDER.mkdir(exist_ok=True)
    libraries: list[str] = []
    if library is not None:
        if shutil.which("pkg-config") is None:
            return None, f"no pkg-config: apt-get install pkg-config {package}"
        found = subprocess.run(["pkg-config", "--libs", library], capture_output=True, text=True, check=False)
        if found.returncode:
            return None, f"no headers: apt-get install {package}"
        libraries = shlex.split(found.stdout)
    command = [*_COMPILER, f"-D{macro}", str(_SOURCE), "-o", str(program), *libraries]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        if "No such file" in compiled.stderr:
            return None, f"no headers: apt-get install {package}"
        print(compiled.stderr, file=sys.stderr)
        return None, f"does not compile here with the headers of {package}"
    return program, ""


def run(engine: str, workload: Workload, core: int) -> dict[str, float]:
    """Run a compiled peer over a workload and check its result."""
    program, missing = build(engine)
    if program is None:
        sys.exit(f"{engine}: {missing}")
    source = Input(workload)
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        pin(process.pid, core)
        for ids in source.batches():
            lengths, data = source.packed(ids)
            process.stdin.write(struct.pack("=II", len(lengths), len(data)))
            process.stdin.write(lengths.tobytes())
            process.stdin.write(data.tobytes())
        process.stdin.write(struct.pack("=II", 0, 0))
        process.stdin.close()
        result: dict[str, float] = json.loads(process.stdout.readline())
        schema = {"key": pl.String(), "count": pl.Int64()}
        rows = pl.read_csv(process.stdout.read(), separator=" ", has_header=False, schema=schema, quote_char=None)
    if process.returncode:
        sys.exit(f"{engine} failed with {process.returncode}")
    if wrong := difference_from_truth(workload, iter([(rows["key"], rows["count"])])):
        sys.exit(f"{engine}: {wrong}")
    return result
