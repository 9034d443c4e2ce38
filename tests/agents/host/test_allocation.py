from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import resource
from elf.agents.host.allocation import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        chunks = [bytes(2 << 20) for _ in range(4)]
        del chunks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = faults()
if keep_freed_memory():
    faults()
    assert faults() * 10 < max(without, 2_000), "memory is still given back"
"""


def test_freed_memory_is_kept() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


def test_what_is_loaded_is_not_collected_and_the_rest_is() -> None:
    program = """
import gc
from elf.agents.host.allocation import loading

with loading():
    assert not gc.isenabled()
    import email.utils
assert gc.isenabled() and gc.get_freeze_count() > 1_000
gc.disable()
with loading():
    pass
assert not gc.isenabled(), "who had switched it off keeps it off"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_threads_share_what_is_freed() -> None:
    """What a thread frees serves the next one: without it each has memory of its own for its arrays."""
    program = """
import ctypes, threading
from elf.agents.host.allocation import share_freed_memory

assert share_freed_memory()
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
found = []
threads = [threading.Thread(target=lambda: found.append(malloc(5_000))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
heap = next(line for line in open("/proc/self/maps") if "[heap]" in line).split()[0].split("-")
assert all(int(heap[0], 16) <= at < int(heap[1], 16) for at in found), "an arena of its own"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_what_is_free_is_given_back_wherever_it_lies() -> None:
    program = """
from elf.agents.host.allocation import give_back, keep_freed_memory

def own_kb():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))

keep_freed_memory()
blocks = [bytes(5_000) for _ in range(10_000)]
last = bytes(5_000)
del blocks
before = own_kb()
if give_back():
    assert own_kb() < before - 30_000, "50 MB are free, and nothing is left behind them"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_polars_shares_what_is_freed_too_unless_it_is_told_otherwise() -> None:
    program = """
import os
from elf.agents.host.allocation import share_freed_memory

share_freed_memory()
os.environ["_RJEM_MALLOC_CONF"] += ",stats_print:true"
import polars
"""
    of_polars = "dirty_decay_ms:500,muzzy_decay_ms:1000"
    for told, arenas in (({}, 1), ({"_RJEM_MALLOC_CONF": "narenas:3"}, 3), ({"_RJEM_MALLOC_CONF": of_polars}, 1)):
        others = {name: value for name, value in os.environ.items() if name != "_RJEM_MALLOC_CONF"}
        run = subprocess.run(
            [sys.executable, "-c", program], env=others | told, check=True, timeout=60, capture_output=True, text=True
        )
        assert f"opt.narenas: {arenas}\n" in run.stderr
