"""Finding installed applications: entry points `elf.applications` of the Python that runs us, loaded once.

They are trusted as installed functions are: they run in the agent's process, with its rights.
"""

from __future__ import annotations

import importlib.metadata
import re
import threading
from typing import Any

from elf.agents.errors import ElfError, JobSpecError, did_you_mean, nearest
from elf.agents.extensions.application_declaration import Application
from elf.agents.jobs.definition import Definition
from elf.agents.language.installed.entry_points import Found, load_points
from elf.agents.language.places import APPLICATION

GROUP = "elf.applications"
#: Where a job names its application.
_SETTING = "options.application"
_lock = threading.Lock()
_installed: Found[type[Application]] | None = None


def installed() -> Found[type[Application]]:
    """Return what is installed; the first call imports the packages, which takes as long as they do."""
    global _installed
    if _installed is None:
        with _lock:
            if _installed is None:
                points = importlib.metadata.entry_points(group=GROUP)
                _installed = load_points(points, "applications", _check_name, _use)
    return _installed


def find_application(name: str) -> type[Application]:
    """Return the installed application of this name.

    Raises:
        JobSpecError: there is none, or it cannot be used.
    """
    found = installed()
    if name in found.objects:
        return found.objects[name]
    if name in found.refused:
        raise JobSpecError(
            f"the application {name!r} that is installed cannot be used: {found.refused[name]}", setting=_SETTING
        )
    words = did_you_mean(nearest(name, found.objects)) or "; none is" * (not found.objects)
    raise JobSpecError(f"no application {name!r} is installed{words}", setting=_SETTING)


def require_application(definition: Definition) -> None:
    """Refuse a job whose application is not installed here; raises JobSpecError."""
    if definition.options.application:
        find_application(definition.options.application)


def _check_name(name: str) -> None:
    if re.fullmatch(APPLICATION, name) is None:
        raise ElfError(f"{name!r} is no name of an application: 1 to 63 of a-z 0-9 _ -, beginning with a letter")


def _use(name: str, value: str, made: Any) -> type[Application]:
    if not (isinstance(made, type) and issubclass(made, Application)):
        raise ElfError(f"{value} is no class made of elf.Application")
    return made
