"""The unit is the one of the package, and no path breaks out of its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from elf.agents.errors import ConfigError
from elf.installation.unit import TEMPLATE, text_of


def test_it_is_the_one_of_the_package_but_for_what_is_its_own() -> None:
    package = TEMPLATE.read_text().splitlines()
    written = text_of("web", ["adm", "www"], "/srv/elf", Path("/srv/a.toml"), Path("/srv/data")).splitlines()
    own = {
        "User=web",
        "SupplementaryGroups=adm www",
        "ExecStartPre=/srv/elf validate /srv/a.toml",
        "ExecStart=/srv/elf agent --config /srv/a.toml",
        "ReadWritePaths=/srv/data",
    }
    assert set(written[1:]) - set(package) == own
    assert len(written) == len(package) + 1, "the mark and the folder more, the manual less"
    assert text_of("elf", ["adm"], "/opt/elf/bin/elf", Path("/etc/elf/agent.toml")).splitlines()[1:] == [
        line for line in package if not line.startswith("Documentation=")
    ]


def test_paths_are_one_word() -> None:
    text = text_of("elf", [], "/opt/my elf/100%/elf", Path('/etc/"$x"/agent.toml'))
    assert 'ExecStart="/opt/my elf/100%%/elf" agent --config "/etc/\\"$$x\\"/agent.toml"\n' in text
    assert "SupplementaryGroups" not in text
    with pytest.raises(ConfigError, match="cannot be written into a unit"):
        text_of("elf", [], "/opt/elf", Path("/etc/a\nExecStart=/bin/sh"))
