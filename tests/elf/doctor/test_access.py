"""Who may read a file, by modes: as the kernel has it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from elf.doctor.access import User, barrier, way_in

STRANGER = User(65_534, frozenset({65_534}), "nobody")


@given(st.integers(0, 0o777), st.booleans(), st.booleans())
def test_the_first_that_fits_decides(mode: int, owns: bool, is_in: bool) -> None:
    file = Path("/tmp") / f"elf-access-{os.getpid()}"
    file.touch()
    try:
        file.chmod(mode)
        found = file.stat()
        user = User(found.st_uid if owns else 65_534, frozenset({found.st_gid if is_in else 65_534}), "u")
        bits = mode >> 6 if owns else mode >> 3 if is_in else mode
        expected = None if bits & 4 or user.uid == 0 else file
        assert barrier(str(file), user) == expected
    finally:
        file.unlink()


def test_a_closed_folder_is_what_keeps_one_out() -> None:
    inner = Path("/tmp") / f"elf-folder-{os.getpid()}"
    inner.mkdir()
    inner.chmod(0o700)
    try:
        (inner / "a.log").touch()
        (inner / "a.log").chmod(0o644)  # whatever the umask
        assert barrier(str(inner / "a.log"), STRANGER) == inner
        assert way_in(inner, STRANGER) == f"setfacl --modify u:nobody:rx {inner}"
        assert barrier(str(inner / "gone.log"), STRANGER) == inner
        inner.chmod(0o755)
        assert barrier(str(inner / "a.log"), STRANGER) is None
        assert barrier(str(inner / "gone.log"), STRANGER) is None
    finally:
        (inner / "a.log").unlink()
        inner.rmdir()


def test_the_group_of_logs_is_the_way_in(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.touch()
    log.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(log, 0, 4)
        assert way_in(log, STRANGER) == "usermod --append --groups adm nobody"
    log.chmod(0o600)
    assert way_in(log, STRANGER) == f"setfacl --modify u:nobody:r {log}"


def test_an_access_list_opens_what_modes_close() -> None:
    """As `setfacl --modify u:nobody:r` writes it: version 2; owner, the named user, group, mask and others."""
    file = Path("/tmp") / f"elf-listed-{os.getpid()}"
    file.touch()
    file.chmod(0o600)
    anybody = 0xFFFFFFFF
    try:
        for right, expected in ((4, None), (0, file)):
            entries = [
                (1, 6, anybody),
                (2, right, STRANGER.uid),
                (4, 0, anybody),
                (0x10, 4, anybody),
                (0x20, 0, anybody),
            ]
            packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
            os.setxattr(file, "system.posix_acl_access", packed)
            assert barrier(str(file), STRANGER) == expected
            assert barrier(str(file), User(65_533, frozenset({65_533}), "another")) == file
    finally:
        file.unlink()
