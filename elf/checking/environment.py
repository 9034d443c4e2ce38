"""What a configuration names on this machine: whether folders and files are there, and open to whom they should be.

The text is `elf.checking.validate`'s. Owns no rule of its own about secrets, tokens, keys and logs: whoever uses them
at an agent's start judges them here, too. Shell: it looks, and changes nothing.
"""

from __future__ import annotations

import contextlib
import glob
import ipaddress
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elf.agents.errors import ConfigError
from elf.agents.intake.decoder import read_key, source_format
from elf.agents.intake.recognition import recognised
from elf.agents.intake.source_setup import archive_folder
from elf.agents.runtime import read_token
from elf.agents.settings.config import AUTO, AgentConfig, SourceConfig, is_loopback, overlay_settings, split_address
from elf.agents.sources.files.compression import RefusedError
from elf.agents.sources.files.families import live_paths
from elf.agents.sources.files.readers import open_reader
from elf.agents.sources.native import built
from elf.agents.sources.recognition import SAMPLE_BYTES, fitting, recognise
from elf.agents.toml.places import Places, find_places
from elf.checking.validate import Finding
from elf.overlay.dht.auth import Secret
from elf.overlay.errors import OverlayError
from elf.overlay.ids import format_address
from elf.overlay.links.binding import check_place
from elf.overlay.links.tls import Tls


@dataclass(slots=True)
class Surroundings:
    """What was found: `obstacles` keep an agent of this user from starting, or from its events; `notes` do not."""

    obstacles: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


def look_around(config: AgentConfig, text: str, file: str) -> Surroundings:
    """Look at all that a configuration names, as the user who runs this; `text` and `file` tell the places.

    Ports and addresses are not tried: an agent may run with them already.
    """
    look = _Look(find_places(text), file)
    look.folder(("agent", "data"), Path(config.agent.data))
    archive = archive_folder(config)
    if archive is not None and config.archive.path:
        look.folder(("archive", "path"), archive)
    if config.overlay.secret_file:
        look.judged(("overlay", "secret_file"), lambda: Secret.load(config.overlay.secret_file))
    look.judged(("overlay", "tls_cert_file"), lambda: _check_certificate(config))
    if config.api.token_file:
        look.judged(("api", "token_file"), lambda: read_token(config.api.token_file))
    for name, source in config.sources.items():
        look.source(name, source)
    if config.sources:
        look.kernels()
    return look.found


class _Look:
    """Collects what is found; a setting that is not written has its section's place."""

    def __init__(self, places: Places, file: str) -> None:
        self._places = places
        self._file = file
        self.found = Surroundings()

    def _finding(self, path: tuple[str, ...], message: str) -> Finding:
        place = self._places.value(path)
        return Finding(self._file, place.line, place.column, message)

    def _note(self, path: tuple[str, ...], message: str) -> None:
        self.found.notes.append(self._finding(path, message))

    def judged(self, path: tuple[str, ...], judge: Callable[[], object]) -> None:
        """Let whoever uses a file at the start judge it."""
        try:
            judge()
        except (OverlayError, ConfigError) as error:
            self.found.obstacles.append(self._finding(path, str(error)))

    def folder(self, path: tuple[str, ...], folder: Path) -> None:
        """Look whether a folder can be written, or made."""
        there, setting = _nearest(folder), ".".join(path)
        if not os.path.isdir(there):
            why = f"{there} is no folder"
        elif not os.access(there, os.W_OK | os.X_OK):
            why = f"this user may not write into {there}" + ("" if there == folder else ", where it would be made")
        else:
            why = ""
        if why:
            self.found.obstacles.append(self._finding(path, f"{setting} = '{folder}' cannot be used: {why}"))

    def kernels(self) -> None:
        """Look whether there are kernels that read log lines."""
        if built() is None:
            said = "kernels: none, so lines are read at a twentieth of the speed, with the same result"
            self._note(("sources",), f"{said}; install elf where there is a C compiler, or a wheel from there")

    def source(self, name: str, source: SourceConfig) -> None:
        """Look whether a source's logs are there and can be read; one that begins later is none's mistake."""
        path = ("sources", name, "path")
        setting = ".".join(path)
        if source.privacy.key_file:
            self.judged(("sources", name, "privacy", "key_file"), lambda: read_key(name, source))
        families, unmatched, unreadable = live_paths([os.path.abspath(source.path)] if source.path else [])
        for pattern in unmatched:
            self._note(path, f"{setting} = {source.path!r}: {_why_unmatched(pattern)}")
        for each, why in unreadable.items():
            self._note(path, f"{setting}: {each} can be no log: {why}")
        for each in sorted({one for paths in families.values() for one in paths} - set(unmatched) - set(unreadable)):
            if not os.access(each, os.R_OK):
                group = Path(each).parent
                self._note(
                    path, f"{setting}: this user may not read {each}; see the modes and groups of it and {group}"
                )
            elif refused := _why_refused(each):
                self._note(path, f"{setting}: {each} cannot be read: {refused}")
        self._format(name, source, [each for paths in families.values() for each in paths])

    def _format(self, name: str, source: SourceConfig, logs: Sequence[str]) -> None:
        """Look whether the first lines of the newest log have the format that is configured, or any that is known."""
        try:
            sample = front_of_newest(logs)
            if source.reads_as == AUTO:
                self._open_format(name, source, sample)
                return
            format = source_format(name, source)
        except (ConfigError, OSError):  # said already
            return
        found = fitting(format, sample)
        if not found.lines or found.is_good:
            return
        said = f"sources.{name}.format: {found.fits} of the first {found.lines} lines fit {format.name!r}"
        likely = recognise(sample).format
        if likely is not None:
            setting = f'time = "{likely.time}"' if likely.names == found.names else f'format = "{likely.shown}"'
            said += f"; {likely.fits} would with {setting}"
        self.found.obstacles.append(self._finding(("sources", name, "format"), said))

    def _open_format(self, name: str, source: SourceConfig, sample: bytes) -> None:
        """Look whether lines tell their format, as an agent will."""
        found = recognised([sample], source.time or None) if sample else None
        if isinstance(found, str):
            self.found.obstacles.append(self._finding(("sources", name), f"sources.{name}: {found}"))
        elif found is not None:
            self.judged(("sources", name), lambda: source_format(name, source, recognised=found))


def _nearest(path: Path) -> Path:
    """Return a path, or the nearest folder above it that this user sees."""
    return next((each for each in (path, *path.absolute().parents) if os.path.exists(each)), Path("/"))


def front_of_newest(logs: Sequence[str]) -> bytes:
    """Return the first bytes of the log that was written last; raises OSError."""
    readable = [log for log in logs if os.access(log, os.R_OK) and _why_refused(log) is None]
    if not readable:
        return b""
    with contextlib.closing(open_reader(max(readable, key=os.path.getmtime))) as reader:
        return reader.read_at(0, SAMPLE_BYTES)


def _why_refused(log: str) -> str | None:
    """Say why an agent cannot read a log that it may read; None if it can."""
    try:
        open_reader(log).close()
    except RefusedError as error:
        return str(error)
    except OSError:  # it was there a moment ago
        return None
    return None


def _why_unmatched(pattern: str) -> str:
    """Say why a path or a glob matches nothing."""
    folder = Path(pattern).parent
    there = _nearest(folder)
    if not os.access(there, os.X_OK | os.R_OK):
        return f"this user may not look into {there}"
    if there != folder and not glob.has_magic(str(folder)):
        return f"there is no folder {folder}"
    return "no file matches it yet"


def _check_certificate(config: AgentConfig) -> None:
    """Read the certificate's files as a start would, if others reach this agent by an IP address."""
    overlay = config.overlay
    bound, bind_port = split_address(overlay.bind)
    host, port = split_address(overlay.advertise or overlay.bind)
    try:
        if ipaddress.ip_address(host).is_unspecified:
            return
    except ValueError:
        return
    address = format_address(host, port or bind_port)
    tls = Tls.load(overlay_settings(config, ""), address)
    if not overlay.secret_file and not is_loopback(bound):
        check_place(tls, address)
