"""The web servers of this machine, by their configurations where they usually are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from elf.agents.errors import ConfigError
from elf.installation import apache, nginx
from elf.installation.access_logs import AccessLog
from elf.installation.config_files import ConfigFiles

#: What only nginx's main configuration has.
_OF_NGINX = re.compile(r"^\s*(?:http|events|server)\s*\{", re.MULTILINE)


def logs_of_servers(configurations: Sequence[Path] = ()) -> tuple[list[AccessLog], list[str]]:
    """Find the access logs of web servers, and say what was looked at and which logs are left out.

    Args:
        configurations: main configurations; none: those in the usual places.

    Raises:
        ConfigError: a configuration is none of nginx or Apache.
    """
    usual = [Path(each) for each in (*nginx.PATHS, *apache.PATHS) if os.path.exists(each)]
    logs: list[AccessLog] = []
    said: list[str] = []
    for path in map(str, configurations or usual):
        files = ConfigFiles()
        is_nginx = path in nginx.PATHS or (path not in apache.PATHS and _OF_NGINX.search(ConfigFiles().read(path)))
        found = nginx.find_logs(path, files) if is_nginx else apache.find_logs(path, files)
        if configurations and path in (unread.partition(": ")[0] for unread in files.unread):
            raise ConfigError(files.unread[0])
        said.append(f"{found.server}, {path}: {len(found.logs)} access logs")
        said += [f"  left out: {each}" for each in found.left_out]
        said += [f"  not read: {each}" for each in files.unread[:10]]
        known = {log.path for log in logs}
        logs += [log for log in found.logs if log.path not in known]
    return logs, said
