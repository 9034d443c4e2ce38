"""The unit is the one of the documents, and no path breaks out of its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elf.agents.errors import ConfigError
from elf.installation.unit import text_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "OPERATIONS.md"


def test_it_is_the_one_of_the_documents() -> None:
    blocks = re.findall(r"```ini\n# \S+\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    text = text_of("elf", ["adm"], "/opt/elf/bin/elf", Path("/etc/elf/agent.toml"))
    assert text.partition("\n")[2] in blocks


def test_paths_are_one_word() -> None:
    text = text_of("elf", [], "/opt/my elf/100%/elf", Path('/etc/"$x"/agent.toml'))
    assert 'ExecStart="/opt/my elf/100%%/elf" agent --config "/etc/\\"$$x\\"/agent.toml"\n' in text
    assert "SupplementaryGroups" not in text
    with pytest.raises(ConfigError, match="cannot be written into a unit"):
        text_of("elf", [], "/opt/elf", Path("/etc/a\nExecStart=/bin/sh"))
