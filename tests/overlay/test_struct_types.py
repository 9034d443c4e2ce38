"""Struct types are ready before threads read with them: the first two values at a time must not end the process."""

from __future__ import annotations

import subprocess
import sys

#: Lets threads read their first value of each type at the same time; without the preparation none of its runs lived.
READERS = """
import sys, threading
sys.setswitchinterval(1e-6)
import elf.agents.agent, msgspec
from elf.overlay import struct_types

packages = ("elf.overlay", "elf.cbt", "elf.agents")
kinds = [kind for kind in struct_types._structs(msgspec.Struct) if kind.__module__.startswith(packages)]
struct_types.prepare_structs(*packages)

def value(kind):
    fields = kind.__struct_encode_fields__
    tag = kind.__struct_config__.tag
    named = {**({kind.__struct_config__.tag_field: tag} if tag else {}), **dict.fromkeys(fields, 0)}
    return msgspec.msgpack.encode(list(named.values()) if kind.__struct_config__.array_like else named)

def read(kind, data, start):
    start.wait()
    try:
        msgspec.msgpack.decode(data, type=kind)
    except Exception:
        pass  # the values are none of the kind; what counts is that there is a process afterwards

for kind in kinds:
    start = threading.Barrier(4)
    threads = [threading.Thread(target=read, args=(kind, value(kind), start)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(kinds))
"""


def test_threads_that_read_their_first_values_at_a_time_live() -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", READERS], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert int(done.stdout) > 150
