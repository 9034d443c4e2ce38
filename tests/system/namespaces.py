"""Hosts in network namespaces of their own on one bridge, and one-way drops between them.

Needs root, `ip` and `nft`; `scripts/setup --test` installs the latter two.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import subprocess
from collections.abc import Iterator

NETWORK = "10.77.0"
#: Of setns(2).
CLONE_NEWNET = 0x4000_0000


class Host:
    """A network namespace with one address."""

    def __init__(self, namespace: str, address: str) -> None:
        self.namespace, self.address = namespace, address

    @property
    def before(self) -> list[str]:
        """What to put in front of a command that is to run on this host."""
        return ["ip", "netns", "exec", self.namespace]

    def enter(self) -> None:
        """Move the calling thread, and no other, to this host: its sockets are made here from now on."""
        with pathlib.Path("/run/netns", self.namespace).open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.namespace}")

    def deaf_to(self, *others: Host) -> None:
        """Drop all that comes from these hosts, and nothing else: ours still reaches them."""
        for other in others:
            self._nft(f"add element inet elf deaf {{ {other.address} }}")

    def hear(self) -> None:
        """Drop nothing any more."""
        self._nft("flush set inet elf deaf")

    def prepare(self) -> None:
        """Set up the rule that `deaf_to` fills."""
        self._nft("add table inet elf")
        self._nft("add set inet elf deaf { type ipv4_addr; }")
        self._nft("add chain inet elf input { type filter hook input priority 0; policy accept; }")
        self._nft("add rule inet elf input ip saddr @deaf drop")

    def _nft(self, rule: str) -> None:
        _run(*self.before, "nft", rule)


def can_make_hosts() -> bool:
    """Tell whether this process may make namespaces and rules."""
    try:
        with hosts(1):
            return True
    except (OSError, AssertionError):
        return False


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Make hosts that reach each other, and take them away again."""
    stem = f"elf{os.getpid()}"
    made = [Host(f"{stem}-{number}", f"{NETWORK}.{number}") for number in range(1, count + 1)]
    switch = f"{stem}-switch"
    try:
        _ip(f"netns add {switch}")
        _ip(f"-n {switch} link add bridge type bridge")
        _ip(f"-n {switch} link set bridge up")
        for number, host in enumerate(made):
            _ip(f"netns add {host.namespace}")
            _ip(f"-n {switch} link add port{number} type veth peer eth0 netns {host.namespace}")
            _ip(f"-n {switch} link set port{number} master bridge up")
            _ip(f"-n {host.namespace} address add {host.address}/24 dev eth0")
            _ip(f"-n {host.namespace} link set eth0 up")
            _ip(f"-n {host.namespace} link set lo up")
            host.prepare()
        yield made
    finally:
        for name in [*(host.namespace for host in made), switch]:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _ip(arguments: str) -> None:
    _run("ip", *arguments.split())


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
