"""What the exit codes mean; scripts may rely on them, so they never change their meaning.

| code | meaning |
|---|---|
| 0 | done; for `query`, there are rows; for `verify`, both sides agree, or labels account for what differs |
| 1 | `query`: no rows; `run`: no line of some file is an event, or one of a glob cannot be read; `verify`: cells differ
|   | and no label says why, or nothing is final; `doctor`: something is wrong; any command: its output could not be
|   | written, or a file is damaged |
| 2 | the command line, or a job, is wrong (also: no such job) |
| 69 | no agent answers, or it cannot answer now, or not completely as required, or has no answer yet: try again later |
| 70 | elf made a mistake: please report it |
| 78 | a configuration file or setting is wrong; for `validate`, also a file that cannot be told to be a job |
| 130 | interrupted (Ctrl-C), or a question was not answered with yes |
"""

from __future__ import annotations

from elf.agents.errors import (
    EXIT_CONFIG,
    EXIT_USAGE,
    ConfigError,
    DamagedError,
    ElfError,
    IncompleteError,
    UnavailableError,
)

OK = 0
DIFFERS = 1
FOUND = 1
NO_RESULT = 1
UNWRITTEN = 1
DAMAGED = 1
USAGE = EXIT_USAGE
UNAVAILABLE = 69
INTERNAL = 70
CONFIG = EXIT_CONFIG
INTERRUPTED = 130


def exit_code_of(error: ElfError) -> int:
    """Return the code that tells a script whose turn it is."""
    match error:
        case UnavailableError() | IncompleteError():
            return UNAVAILABLE
        case ConfigError():
            return CONFIG
        case DamagedError():
            return DAMAGED
    return USAGE
