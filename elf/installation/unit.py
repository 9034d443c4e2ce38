"""The systemd unit of an agent: its text, and how it is begun; docs/OPERATIONS.md says why it is as it is."""

from __future__ import annotations

import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from elf.agents.errors import ConfigError
from elf.installation.files import MARK, UNIT_MODE, Owner, create

NAME = "elf-agent.service"
FOLDER = pathlib.Path("/etc/systemd/system")
STATE = pathlib.Path("/var/lib/elf")
#: Where a package puts its own, which is used then.
PACKAGED = (pathlib.Path("/lib/systemd/system"), pathlib.Path("/usr/lib/systemd/system"))
#: There if systemd runs the machine.
RUNNING = pathlib.Path("/run/systemd/system")
#: Where `ProtectHome=yes` lets no service look.
_HIDDEN = ("/home", "/root", "/run/user")
#: In the unit if the user was made for it, and is to go with it.
_OWN_USER = "# The user was made for it: "
#: The unit of the package `elf-agent`, and what of it is another installation's own.
TEMPLATE = pathlib.Path(__file__).with_name(NAME)
_PROGRAM, _SETTINGS = "/opt/elf/bin/elf", "/etc/elf/agent.toml"
_USER, _GROUPS, _MANUAL = "User=elf\n", "SupplementaryGroups=adm\n", "Documentation=man:elf(1)\n"
_STRICT = "ProtectSystem=strict\n"


def text_of(user: str, groups: list[str], elf: str, config: pathlib.Path, data: pathlib.Path = STATE) -> str:
    """Write the unit of an agent with these settings.

    Args:
        user: that it runs as.
        groups: that it is in besides.
        elf: the command.
        config: its settings.
        data: the folder of its state; systemd makes it only if it is `STATE`.

    Raises:
        ConfigError: a path is one that systemd cannot be told.
    """
    own = {
        _MANUAL: "",
        _USER: f"User={user}\n",
        _GROUPS: f"SupplementaryGroups={' '.join(groups)}\n" if groups else "",
        _STRICT: _STRICT if data == STATE else f"{_STRICT}ReadWritePaths={_word(str(data))}\n",
        _PROGRAM: _word(elf),
        _SETTINGS: _word(str(config)),
    }
    pattern = "|".join(map(re.escape, own))
    text = re.sub(pattern, lambda found: own[found[0]], TEMPLATE.read_text(encoding="utf-8"))
    return f"{MARK}; yours to change.\n{text}"


def program() -> str:
    """Return the path of the `elf` command that runs.

    Raises:
        ConfigError: a service could not see it.
    """
    beside = pathlib.Path(sys.executable).parent / "elf"
    found = str(beside) if beside.exists() else shutil.which("elf") or ""
    if not found:
        raise ConfigError("there is no command `elf` beside this Python; install elf in an environment, /opt/elf say")
    if os.path.realpath(os.path.dirname(found)).startswith(tuple(f"{folder}/" for folder in _HIDDEN)):
        raise ConfigError(f"{found} is where no service may look; install elf in /opt/elf, say, and run that one")
    return found


def install(text: str) -> Iterator[str]:
    """Write the unit unless there is one, and have systemd begin it, now and at each start; yields what is done.

    Raises:
        ConfigError: it cannot be written, or systemd refuses it.
    """
    packaged = next((folder / NAME for folder in PACKAGED if (folder / NAME).exists()), None)
    file = packaged or FOLDER / NAME
    if packaged is None and create(file, text, UNIT_MODE, Owner()):
        yield f"wrote {file}"
    else:
        yield f"{file} is there already and stays as it is"
    if not RUNNING.is_dir():
        yield f"systemd does not run this machine; where it does: systemctl enable --now {NAME}"
        return
    run("systemctl", "daemon-reload")
    run("systemctl", "enable", "--now", NAME)
    yield f"{NAME} runs, now and from each start of the machine on"


def take_away() -> Iterator[str]:
    """Stop the agent and remove the unit, if `elf init` wrote it; yields what is done."""
    if not is_ours():
        return
    file = FOLDER / NAME
    if RUNNING.is_dir():
        run("systemctl", "disable", "--now", NAME)
    file.unlink()
    if RUNNING.is_dir():
        run("systemctl", "daemon-reload")
    yield f"removed {file}"


def is_there() -> bool:
    """Tell whether this machine has the unit, whoever wrote it."""
    return any((folder / NAME).exists() for folder in (FOLDER, *PACKAGED))


def is_ours() -> bool:
    """Tell whether there is a unit that `elf init` wrote."""
    file = FOLDER / NAME
    return file.is_file() and file.read_text(encoding="utf-8", errors="replace").startswith(MARK)


def ensure_user(user: str) -> bool:
    """Make a system user for the agent; return whether there was none."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        run("useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", user)
        return True
    return False


def with_own_user(text: str, user: str) -> str:
    """Note in a unit that its user was made for it."""
    return f"{text}{_OWN_USER}{user}\n"


def own_user() -> str:
    """Return the user that was made for the unit; empty if there was one."""
    lines = (FOLDER / NAME).read_text(encoding="utf-8").splitlines() if is_ours() else []
    return next((line.removeprefix(_OWN_USER) for line in lines if line.startswith(_OWN_USER)), "")


def run(*command: str) -> None:
    """Run a command of the system; raises ConfigError with what it says when it fails."""
    environment = os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"`{' '.join(command)}` cannot be run: {error}") from None
    if done.returncode:
        raise ConfigError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")


def _word(text: str) -> str:
    """Quote a word of a command line for systemd."""
    if not text.isprintable():
        raise ConfigError(f"{text!r} cannot be written into a unit")
    text = text.replace("%", "%%").replace("$", "$$")
    is_plain = not set(text) & set(" \t\"'\\;")
    return text if is_plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
