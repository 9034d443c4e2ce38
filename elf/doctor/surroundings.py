"""What an agent needs of its machine: a valid file, a port, room on the disk, certificates that are in time."""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from elf.agents.errors import ConfigError
from elf.agents.intake.source_setup import archive_folder
from elf.agents.settings.config import AgentConfig, split_address
from elf.checking.environment import look_around
from elf.checking.validate import load_config
from elf.doctor.access import User, barrier, way_in
from elf.doctor.finding import Check, Finding

#: With less an agent has minutes left on a busy server; a twentieth of a small disk is as much.
ROOM_BYTES, ROOM_SHARE = 1 << 30, 0.05
#: Renewing takes a person, and people have weekends.
EXPIRES_DAYS = 30
_START = "an agent does not start with it, or misses events"


def read_settings(file: Path) -> tuple[AgentConfig | None, list[Finding]]:
    """Read settings; returns them if they are valid, and what is wrong with them, or with what they name.

    Logs are not looked at here: who asks may be somebody else than the agent.
    """
    try:
        config = load_config(file)
    except ConfigError as error:
        mend = f"elf validate {shlex.quote(str(file))}"
        return None, [Finding(Check.SETTINGS, line, _START, mend) for line in str(error).splitlines()]
    around = look_around(config, file.read_text(encoding="utf-8"), str(file))
    findings = []
    for each in around.obstacles:
        message = each.message
        if ".format" in message.split(" ", 1)[0] or message.startswith("sources."):
            continue  # of the log's end is said more
        check = Check.CERTIFICATE if "tls_" in message or "certificate" in message else Check.SETTINGS
        check = Check.SECRET if "secret" in message else check
        mend = message.partition("run `")[2].partition("`")[0] or f"elf validate {shlex.quote(str(file))}"
        findings.append(Finding(check, str(each), _START, mend))
    return config, findings


def look_at_access(config: AgentConfig, user: User) -> Iterator[Finding]:
    """Look whether the agent's user may read the files with keys that the settings name, whoever asks.

    Args:
        config: names them.
        user: that the agent runs as.
    """
    overlay = config.overlay
    for check, file in (
        (Check.SECRET, overlay.secret_file),
        (Check.SECRET, config.api.token_file),
        (Check.CERTIFICATE, overlay.tls_cert_file),
        (Check.CERTIFICATE, overlay.tls_key_file),
        (Check.CERTIFICATE, overlay.tls_ca_file),
        (Check.CERTIFICATE, overlay.tls_revoked_file),
    ):
        closed = barrier(file, user) if file else None
        if closed is not None:
            said = f"the agent's user {user.name} may not read {file}"
            said += "" if str(closed) == os.path.realpath(file) else f", for {closed} is closed to it"
            yield Finding(check, said, _START, f"{way_in(closed, user)} && systemctl restart elf-agent")


def look_at_disk(config: AgentConfig) -> Iterator[Finding]:
    """Look how much room there is for an agent's state and archive."""
    archive = archive_folder(config)
    seen: set[int] = set()
    for folder in [Path(config.agent.data), *([archive] if archive is not None else [])]:
        there = next((each for each in (folder, *folder.absolute().parents) if each.exists()), Path("/"))
        device = there.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        room = shutil.disk_usage(there)
        files = os.statvfs(there)
        few_files = bool(files.f_files) and files.f_favail < 1_000
        if room.free < min(ROOM_BYTES, room.total * ROOM_SHARE) or few_files:
            left = f"{files.f_favail} files" if few_files else f"{room.free >> 20} MiB"
            why = "a full disk stops the agent: nothing is read, and no window ends here, until there is room again"
            mend = f"du --human-readable --max-depth=1 {shlex.quote(str(there))} | sort --human-numeric-sort"
            mend += "   # and set [archive] bytes_max lower"
            yield Finding(Check.DISK, f"the disk of {folder} has {left} left", why, mend)


def look_at_ports(config: AgentConfig) -> Iterator[Finding]:
    """Look whether somebody else has the ports of an agent that does not run."""
    for setting, text in (("overlay.bind", config.overlay.bind), ("api.bind", config.api.bind)):
        host, port = split_address(text)
        kinds = [socket.SOCK_STREAM] + ([socket.SOCK_DGRAM] if setting == "overlay.bind" else [])
        taken = [kind for kind in kinds if port and (_why_not_bound(host, port, kind) is not None)]
        if not taken:
            continue
        said = f"{setting} = {text}: {_why_not_bound(host, port, taken[0])}"
        letter = "t" if taken[0] == socket.SOCK_STREAM else "u"
        mend = f"ss --no-header -{letter}lnp 'sport = :{port}'   # who has it; end that, or set {setting} to another"
        yield Finding(Check.PORT, said, "an agent does not start without its port", mend)


def look_at_certificates(config: AgentConfig, now: datetime.datetime) -> Iterator[Finding]:
    """Look whether certificates are in time, and for how long they are.

    Args:
        config: names them.
        now: the time of day, with its zone.
    """
    for setting in ("tls_cert_file", "tls_ca_file"):
        file = getattr(config.overlay, setting)
        if not file:
            continue
        from cryptography import x509

        from elf.overlay.links.certificates import bearer_of

        try:
            found = x509.load_pem_x509_certificate(Path(file).read_bytes())
        except (OSError, ValueError):
            continue  # said already
        left = found.not_valid_after_utc - now
        reached = config.overlay.advertise or config.overlay.bind
        reached = reached if bearer_of(found).places else split_address(reached)[0]
        folder = shlex.quote(os.path.dirname(file) or ".")
        mend = f"rm {shlex.quote(file)} && elf certgen --out {folder} --address {reached} && elf reload"
        if setting == "tls_ca_file":
            mend = "elf certgen --out NEW-FOLDER --address ...   # a new CA: all agents need certificates of it"
        why = "others refuse links of an agent whose certificate is not in time, and it is missing from results"
        if found.not_valid_before_utc > now:
            yield Finding(Check.CERTIFICATE, f"{file} begins on {found.not_valid_before_utc:%Y-%m-%d}", why, "date")
        elif left < datetime.timedelta(0):
            said = f"{file} has expired on {found.not_valid_after_utc:%Y-%m-%d}"
            yield Finding(Check.CERTIFICATE, said, why, mend)
        elif left < datetime.timedelta(days=EXPIRES_DAYS):
            said = f"{file} expires on {found.not_valid_after_utc:%Y-%m-%d}, in {left.days} days"
            yield Finding(Check.CERTIFICATE, said, why, mend)


def _why_not_bound(host: str, port: int, kind: socket.SocketKind) -> str | None:
    """Bind a port and give it back at once; return why that is impossible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=kind)[0]
        with contextlib.closing(socket.socket(family, kind)) as probe:
            if kind == socket.SOCK_STREAM:
                # As servers do: what an agent that has just ended left behind is no obstacle.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return "another program has this port" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
    return None
