"""Files with tokens and keys: read only where nobody else on the machine can read them."""

from __future__ import annotations

import os
import pathlib

from elf.agents.errors import ConfigError

#: Rights of who is neither the owner nor of the group; `root:elf`, mode 0640, is how Debian's packages do it.
OTHERS = 0o007
_BYTES_MAX = 4096


def read_secret_file(setting: str, path: str) -> bytes:
    """Return what a file with a secret holds, without blanks around it.

    Args:
        setting: which setting names the file, for what is said when it cannot be used.
        path: of the file.

    Raises:
        ConfigError: it cannot be read, or others can read it.
    """
    place = f"{setting} = {path!r}"
    try:
        with pathlib.Path(path).open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror or error}") from None
    if mode & OTHERS:
        raise ConfigError(f"{place}: other users of this machine can read it; run `chmod 600 {path}`")
    return data.strip()
