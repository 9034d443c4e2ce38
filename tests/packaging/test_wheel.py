"""What is installed is `elf` and nothing beside it, made of the files that git knows and of no others."""

from __future__ import annotations

import email
import hashlib
import os
import pathlib
import subprocess
import sys
import tomllib
import zipfile

import pytest

import elf
from tests.packaging.building import (
    LINKED,
    NATIVE,
    ROOT,
    Builder,
    copy_checkout,
    modules,
    names_in_wheel,
    product,
    tracked,
    unpacked,
)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("builder"))


@pytest.fixture(scope="module")
def wheel(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel of a fresh copy of the checkout."""
    return builder.wheel(copy_checkout(tmp_path_factory.mktemp("checkout")), tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="module")
def sdist(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The source distribution of a fresh copy of the checkout, unpacked."""
    out = tmp_path_factory.mktemp("out")
    made = builder.sdist(copy_checkout(tmp_path_factory.mktemp("checkout")), out)
    return unpacked(made, tmp_path_factory.mktemp("sdist"))


@pytest.mark.parametrize("name", LINKED)
def test_the_folders_below_elf_are_links_to_those_at_the_top(name: str) -> None:
    link = ROOT / "elf" / name
    assert os.readlink(link) == f"../{name}"
    assert link.resolve() == ROOT / name
    assert f"elf/{name}" in tracked()
    listed = subprocess.run(["git", "ls-files", "-s", f"elf/{name}"], cwd=ROOT, capture_output=True, check=True).stdout
    assert listed.startswith(b"120000 "), "git keeps it as a link"


def test_a_wheel_has_one_package_and_nothing_else(wheel: pathlib.Path) -> None:
    names = names_in_wheel(wheel)
    [info] = {name.split("/")[0] for name in names} - {"elf"}
    assert info.startswith("elf_stream-")
    assert info.endswith(".dist-info")
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(f"{info}/top_level.txt").split() == [b"elf"]
    assert not [name for name in names if "tests" in name.split("/") or pathlib.PurePath(name).name.startswith("test_")]
    kinds = {pathlib.PurePath(name).suffix for name in names if name.startswith("elf/")}
    assert kinds <= {".py", ".so", ".css", ".service", ".typed"}


def test_its_modules_are_those_of_the_checkout(wheel: pathlib.Path) -> None:
    assert modules(names_in_wheel(wheel)) == product()


def test_the_kernels_are_beside_their_module_and_for_any_python(wheel: pathlib.Path) -> None:
    built = [f"elf/{folder}/_kernels.abi3.so" for folder in sorted(NATIVE)]
    assert sorted(name for name in names_in_wheel(wheel) if name.endswith(".so")) == built
    assert "-cp311-abi3-" in wheel.name


def test_a_wheel_without_kernels_is_for_any_machine(
    builder: Builder, wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    made = builder.wheel(copy_checkout(tmp_path / "checkout"), tmp_path / "out", ELF_KERNELS="none")
    assert made.name.endswith("-py3-none-any.whl")
    assert {name for name in names_in_wheel(wheel) if name.startswith("elf/")} - set(names_in_wheel(made)) == {
        f"elf/{folder}/_kernels.abi3.so" for folder in NATIVE
    }


def test_a_kernel_that_is_required_and_cannot_be_built_is_an_error(builder: Builder, tmp_path: pathlib.Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    said = builder.refusal(checkout, tmp_path / "out", ELF_KERNELS="required", CC="false")
    assert "'false'" in said, "the compiler's failure is told"
    assert "ELF_KERNELS is 'no'; use optional" in builder.refusal(checkout, tmp_path / "out", ELF_KERNELS="no")


def test_checkers_of_types_may_use_what_is_installed(wheel: pathlib.Path) -> None:
    assert "elf/py.typed" in names_in_wheel(wheel)


def test_it_says_what_it_is_and_names_no_place_that_is_not_ours(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        [metadata] = [name for name in names_in_wheel(wheel) if name.endswith("dist-info/METADATA")]
        told = email.message_from_bytes(packed.read(metadata))
    classifiers = told.get_all("Classifier", [])
    assert all(f"Programming Language :: Python :: 3.{minor}" in classifiers for minor in (11, 12, 13))
    assert "Typing :: Typed" in classifiers
    assert told.get_all("Project-URL") is None
    assert told["Home-page"] is None
    assert told["License-Expression"] == "Apache-2.0"


def test_the_version_is_one(wheel: pathlib.Path) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["version"] == elf.__version__ == wheel.name.split("-")[1]


def test_a_source_distribution_has_the_same_modules_and_no_link(sdist: pathlib.Path) -> None:
    names = [path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if not path.is_dir()]
    assert {name for name in modules(names) if name.startswith("elf/")} == product()
    assert {name.split("/")[0] for name in names} <= {
        *("elf", "elf_stream.egg-info", "tests"),
        *("LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "setup.py"),
    }
    assert not [path for path in sdist.rglob("*") if path.is_symlink()]
    # Whoever has a compiler builds the kernels of it.
    for folder in NATIVE:
        sources = {path.name for path in (ROOT / folder).glob("*.[ch]")}
        assert {path.name for path in (sdist / "elf" / folder).glob("*.[ch]")} == sources


def test_a_wheel_of_the_source_distribution_is_that_of_the_checkout(
    builder: Builder, wheel: pathlib.Path, sdist: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    made = builder.wheel(sdist, tmp_path)
    assert sorted(names_in_wheel(made)) == sorted(names_in_wheel(wheel))


def test_what_an_earlier_build_left_does_not_ship(builder: Builder, tmp_path: pathlib.Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    stale = [checkout / "agents" / "stale.py", checkout / "elf" / "stale.py"]
    for module in stale:
        module.write_text('"""It is gone by the next build."""\n')
    first = modules(names_in_wheel(builder.wheel(checkout, tmp_path / "first")))
    assert first - product() == {"elf/agents/stale.py", "elf/stale.py"}
    for module in stale:
        module.unlink()
    left = checkout / "build" / "lib" / "elf" / "agents" / "older.py"
    left.parent.mkdir(parents=True)
    left.write_text('"""A release before built here."""\n')
    assert modules(names_in_wheel(builder.wheel(checkout, tmp_path / "second"))) == product()


def test_a_build_leaves_nothing_but_its_metadata(builder: Builder, tmp_path: pathlib.Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    known = set(checkout.rglob("*"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    builder.wheel(checkout, tmp_path / "out", TMPDIR=str(temporary))
    fresh = {path.relative_to(checkout).parts[0] for path in checkout.rglob("*") if path not in known}
    assert fresh <= {"elf_stream.egg-info"}
    assert list(temporary.iterdir()) == []


def test_two_builds_are_the_same_to_the_byte(builder: Builder, tmp_path: pathlib.Path) -> None:
    made = [builder.wheel(copy_checkout(tmp_path / name), tmp_path / f"out-{name}") for name in ("one", "two")]
    one, two = (hashlib.sha256(each.read_bytes()).hexdigest() for each in made)
    assert one == two


def test_a_checkout_without_links_is_refused_in_one_sentence(builder: Builder, tmp_path: pathlib.Path) -> None:
    """Git writes a file with the link's text where `core.symlinks` is false."""
    checkout = copy_checkout(tmp_path / "checkout")
    for name in LINKED:
        (checkout / "elf" / name).unlink()
        (checkout / "elf" / name).write_text(f"../{name}")
    assert "elf/agents is no link: git config core.symlinks true" in builder.refusal(checkout, tmp_path / "out")


def test_elf_runs_beside_a_package_called_agents(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As `openai-agents` installs one; `scripts/coexist` has the real one."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    for name in LINKED:
        (tmp_path / f"{name}.py").write_text(f'raise ImportError("this {name} is somebody else\'s")\n')
    (tmp_path / "log").write_text('{"ts": 1, "a": "x"}\n{"ts": 2, "a": "y"}\n{"ts": 3, "a": "x"}\n')
    (tmp_path / "job.sql").write_text("SELECT a, count(*) AS n FROM log GROUP BY a ORDER BY a")
    for arguments, expected in ((["--version"], "0."), (["run", "job.sql", "--input", "log", "--json"], "x")):
        command = [sys.executable, "-P", "-c", "from elf.cli.start import main; main()", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert expected in ended.stdout
