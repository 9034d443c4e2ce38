"""Secrets are read where nobody else can."""

import pathlib

import pytest

from elf.agents.errors import ConfigError
from elf.agents.settings.secret_files import read_secret_file


def test_blanks_around_a_secret_are_no_part_of_it(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b" secret\r\n")
    for mode in (0o600, 0o400, 0o640):
        file.chmod(mode)
        assert read_secret_file("api.token_file", str(file)) == b"secret"


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o601, 0o666])
def test_what_others_can_read_or_change_is_refused(tmp_path: pathlib.Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"secret")
    file.chmod(mode)
    with pytest.raises(ConfigError, match=r"^api\.token_file = .*: other users .* run `chmod 600 "):
        read_secret_file("api.token_file", str(file))


def test_what_cannot_be_read_is_said(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"^api\.token_file = '.*none' cannot be read: No such file or directory$"):
        read_secret_file("api.token_file", str(tmp_path / "none"))
