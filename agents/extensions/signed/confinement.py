"""What the process of signed functions may do, set by itself before it sees any source: limits, and a seccomp filter.

Standard library only: the process runs without site-packages. The kernel holds all of it: after `confine` the process
can compute, and read and write what is open already. Looking for files fails as if there were none that may be read;
any other system call (sockets, processes, threads, signals to others) kills it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import struct
import sys

#: All memory of the process, its interpreter included.
MEMORY_BYTES_MAX = 256 << 20
#: Descriptors: nothing, the pipes, and what they stood on before.
_FILES_MAX = 16
#: linux/prctl.h, linux/seccomp.h, linux/audit.h.
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 1, 22, 38, 2
_ALLOW, _KILL, _ERRNO_EACCES = 0x7FFF0000, 0x80000000, 0x00050000 | 13
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
#: Numbers of a second interface of x86_64, with which the same calls would have other numbers.
_X32 = 0x40000000

#: Of each machine: what the kernel calls it, the system calls that are allowed, and those that fail.
_CALLS: dict[str, tuple[int, dict[str, int], dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            **{"read": 0, "write": 1, "close": 3, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12},
            **{"rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25, "madvise": 28},
            **{"exit": 60, "gettimeofday": 96, "time": 201, "futex": 202, "restart_syscall": 219},
            **{"clock_gettime": 228, "exit_group": 231},
        },
        {
            **{"open": 2, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "ioctl": 16, "access": 21, "fcntl": 72},
            **{"getcwd": 79, "readlink": 89, "getdents64": 217, "openat": 257, "newfstatat": 262, "readlinkat": 267},
            **{"faccessat": 269, "statx": 332, "openat2": 437, "faccessat2": 439},
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            **{"close": 57, "read": 63, "write": 64, "exit": 93, "exit_group": 94, "futex": 98, "clock_gettime": 113},
            **{"sched_yield": 124, "restart_syscall": 128, "rt_sigprocmask": 135, "rt_sigreturn": 139},
            **{"gettimeofday": 169, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226},
            **{"madvise": 233},
        },
        {
            **{"getcwd": 17, "fcntl": 25, "ioctl": 29, "faccessat": 48, "openat": 56, "getdents64": 61, "lseek": 62},
            **{"readlinkat": 78, "newfstatat": 79, "fstat": 80, "statx": 291, "openat2": 437, "faccessat2": 439},
        },
    ),
}


def unsupported() -> str | None:
    """Tell why functions cannot be confined on this machine; None if they can."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return f"functions are confined by seccomp of 64-bit Linux, and this is {sys.platform}"
    if platform.machine() not in _CALLS:
        return f"the system calls of {platform.machine()} are not known; those of {' and '.join(_CALLS)} are"
    try:
        with open("/proc/sys/kernel/seccomp/actions_avail", encoding="ascii") as file:
            actions = file.read().split()
    except OSError:
        return "this kernel has no seccomp filters"
    missing = [action for action in ("kill_process", "errno", "allow") if action not in actions]
    return f"seccomp of this kernel has no {' and no '.join(missing)}" if missing else None


def confine() -> None:
    """Give up, for good, all that computing does not need; descriptors are the caller's to close.

    Raises:
        OSError: the kernel refuses; then no source may be run.
    """
    _limit(resource.RLIMIT_AS, MEMORY_BYTES_MAX)
    _limit(resource.RLIMIT_NOFILE, _FILES_MAX)
    for zero in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        _limit(zero, 0)
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    program = _program(platform.machine())
    filters = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many, and where.
    described = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(filters))
    _control(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(described, len(described)))


def die_with(parent: int) -> None:
    """Have the kernel end this process with the thread that started it; `parent` is that thread's process."""
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it has ended meanwhile


def be_killed_first() -> None:
    """Tell the kernel whom to take when memory is short: the agent is dearer."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (bound, bound))


def _control(*arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    values = [each if not isinstance(each, int) else ctypes.c_ulong(each) for each in arguments]
    values += [ctypes.c_ulong(0)] * (5 - len(values))
    if libc.prctl(*values) != 0:
        raise OSError(ctypes.get_errno(), "prctl refuses")


def _program(machine: str) -> bytes:
    """Return the filter in classic BPF, on `struct seccomp_data`: the call's number is at 0, the machine at 4."""
    audit, allowed, failing = _CALLS[machine]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for calls, verdict in ((allowed, _ALLOW), (failing, _ERRNO_EACCES)):
        for number in calls.values():
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, verdict)]
    steps.append((_RETURN, 0, 0, _KILL))
    return b"".join(struct.pack("@HBBI", *step) for step in steps)
