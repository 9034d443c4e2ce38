"""Builds wheels and source distributions of copies of this checkout, as pip would, asking an index only once."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: The folders whose modules are the product.
FOLDERS = ("elf", "agents", "overlay", "cbt")
#: Those of them that are links in the first one.
LINKED = FOLDERS[1:]
#: Folders of kernels in C.
NATIVE = ("cbt/native", "agents/sources/native")
#: Of the last change, so that two builds can be the same to the byte.
DATE = "1760000000"


def tracked() -> list[str]:
    """Return the paths that git knows and that are there, links as such."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for path in listed.split("\0") if path and os.path.lexists(ROOT / path)]


def copy_checkout(to: pathlib.Path) -> pathlib.Path:
    """Copy what git knows of the checkout, as it is now."""
    for path in tracked():
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, to / path, follow_symlinks=False)
    return to


def product() -> set[str]:
    """Return the product's modules as they are to be installed: all below `elf`."""
    modules = [path for path in tracked() if path.endswith(".py") and path.split("/")[0] in FOLDERS]
    return {path if path.startswith("elf/") else f"elf/{path}" for path in modules}


def modules(names: list[str]) -> set[str]:
    """Return those of some names that are modules."""
    return {name for name in names if name.endswith(".py")}


class Builder:
    """An environment of its own with what `pyproject.toml` says that a build requires."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._python = folder / "bin" / "python"
        requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [self._python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requires]
        subprocess.run(install, check=True)

    def wheel(self, source: pathlib.Path, out: pathlib.Path, **environment: str) -> pathlib.Path:
        """Build a wheel of a checkout, or of an unpacked source distribution."""
        return out / self._build("build_wheel", source, out, environment)

    def sdist(self, source: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
        """Build a source distribution of a checkout."""
        return out / self._build("build_sdist", source, out, {})

    def refusal(self, source: pathlib.Path, out: pathlib.Path, **environment: str) -> str:
        """Return what is said where no wheel can be built."""
        ended = self._run("build_wheel", source, out, environment)
        assert ended.returncode != 0, "a wheel was built"
        return ended.stderr

    def _build(self, hook: str, source: pathlib.Path, out: pathlib.Path, settings: Mapping[str, str]) -> str:
        ended = self._run(hook, source, out, settings)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()[-1]

    def _run(
        self, hook: str, source: pathlib.Path, out: pathlib.Path, settings: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        # As a frontend of PEP 517 has it: the hook runs in the source's folder, and says what it has made.
        out.mkdir(exist_ok=True)
        call = f"import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": DATE, **settings}
        environment.pop("PYTHONPATH", None)
        command = [self._python, "-c", call, out]
        return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


def names_in_wheel(wheel: pathlib.Path) -> list[str]:
    """Return the names of a wheel's files."""
    with zipfile.ZipFile(wheel) as packed:
        return packed.namelist()


def unpacked(sdist: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    """Unpack a source distribution, and return its one folder."""
    with tarfile.open(sdist) as packed:
        # Python 3.11.2, Debian's, takes no argument for it.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(to)
    [folder] = to.iterdir()
    return folder
