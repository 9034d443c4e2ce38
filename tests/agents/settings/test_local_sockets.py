"""Sockets are made and found where nobody else could have put them."""

from __future__ import annotations

import os
import pathlib
import socket

import pytest

from elf.agents.settings import local_sockets
from elf.agents.settings.local_sockets import name_of, socket_to_make, socket_to_use

PORT = 4260


@pytest.fixture
def folders(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pathlib.Path, pathlib.Path]:
    """Where services and where this user would have theirs; neither is there yet."""
    service, own = tmp_path / "run" / "elf", tmp_path / "user"
    monkeypatch.setattr(local_sockets, "SERVICE_FOLDER", service)
    return service, own


def bind(place: pathlib.Path) -> pathlib.Path:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
    return place


def test_without_a_folder_there_is_none(folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    service, own = folders
    for environment in ({}, {"XDG_RUNTIME_DIR": str(own)}, {"XDG_RUNTIME_DIR": "user"}):
        assert socket_to_make(PORT, environment) is None
        assert socket_to_use(PORT, environment) is None
    assert not service.exists() and not own.exists()


def test_a_users_own_folder_is_used_and_then_the_services(folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    service, own = folders
    own.mkdir(mode=0o700)
    environment = {"XDG_RUNTIME_DIR": str(own)}
    made = socket_to_make(PORT, environment)
    assert made is not None and made == own / "elf" / name_of(PORT) and made.parent.stat().st_mode & 0o777 == 0o700
    assert socket_to_use(PORT, environment) is None, "nobody has made it yet"
    bind(made)
    assert socket_to_use(PORT, environment) == made
    assert socket_to_use(PORT + 1, environment) is None
    service.mkdir(parents=True, mode=0o750)
    assert socket_to_make(PORT, environment) == service / name_of(PORT)
    bind(service / name_of(PORT))
    assert socket_to_use(PORT, environment) == service / name_of(PORT)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_folder_that_others_write_in_is_none(folders: tuple[pathlib.Path, pathlib.Path], mode: int) -> None:
    service, own = folders
    environment = {"XDG_RUNTIME_DIR": str(own)}
    for folder in (service, own / "elf"):
        bind(folder / name_of(PORT))
        folder.chmod(mode)
    own.chmod(mode)
    assert socket_to_make(PORT, environment) is None
    assert socket_to_use(PORT, environment) is None


def test_what_is_no_socket_or_leads_elsewhere_is_none(folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    service, own = folders
    environment = {"XDG_RUNTIME_DIR": str(own)}
    elsewhere = bind(own / "others" / name_of(PORT))
    service.mkdir(parents=True, mode=0o755)
    (service / name_of(PORT)).symlink_to(elsewhere)
    (own / "elf").symlink_to(elsewhere.parent)
    assert socket_to_use(PORT, environment) is None
    (service / name_of(PORT)).unlink()
    (service / name_of(PORT)).write_text("")
    assert socket_to_use(PORT, environment) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_another_users_folder_is_none_but_for_a_service(folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    service, own = folders
    environment = {"XDG_RUNTIME_DIR": str(own)}
    for folder in (service, own / "elf"):
        bind(folder / name_of(PORT))
        os.chown(folder, 65534, 65534)
    os.chown(own, 65534, 65534)
    assert socket_to_make(PORT, environment) is None
    assert socket_to_use(PORT, environment) == service / name_of(PORT), "root has made it"
    (service / name_of(PORT)).unlink()
    assert socket_to_use(PORT, environment) is None
