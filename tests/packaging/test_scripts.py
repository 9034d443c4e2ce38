"""Scripts that make packages: what they are told wrongly is one sentence, and nothing is made."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.packaging.building import ROOT, copy_checkout, tracked

SCRIPTS = [path for path in tracked() if path.startswith(("scripts/", "packaging/")) and "." not in path.split("/")[-1]]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A repository of its own with one commit, without a tag."""
    folder = copy_checkout(tmp_path_factory.mktemp("repository"))
    for arguments in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "x"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


def run(folder: pathlib.Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", [path for path in SCRIPTS if (ROOT / path).read_text().startswith("#!")])
def test_a_script_is_one_that_its_shell_takes(script: str) -> None:
    shell = (ROOT / script).read_text().splitlines()[0].split("/")[-1].split()[-1]
    assert run(ROOT, shell, "-n", script).stderr == ""
    assert os.access(ROOT / script, os.X_OK)


@pytest.mark.parametrize("arguments", [[], ["1.0"], ["v1.0.0"], ["1.0.0", "--wet"], ["1.0.0", "--dry-run", "x"]])
def test_a_release_is_named_rightly_or_refused(repository: pathlib.Path, arguments: list[str]) -> None:
    done = run(repository, "scripts/release", *arguments)
    assert (done.returncode, done.stderr) == (2, "release: usage: scripts/release X.Y.Z [--dry-run]\n")


def test_a_release_is_of_a_tag(repository: pathlib.Path) -> None:
    done = run(repository, "scripts/release", "0.1.0")
    assert (done.returncode, done.stderr) == (1, "release: there is no tag v0.1.0: git tag v0.1.0\n")


def test_a_release_is_of_what_is_committed(repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(repository, changed, symlinks=True)
    subprocess.run(["git", "tag", "v0.1.0"], cwd=changed, check=True)
    (changed / "new.txt").touch()
    done = run(changed, "scripts/release", "0.1.0")
    assert (done.returncode, done.stderr) == (1, "release: there are changes that are not committed\n")


def test_a_release_has_one_version_and_a_dated_section(repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    tagged = tmp_path / "tagged"
    shutil.copytree(repository, tagged, symlinks=True)
    for tag in ("v0.1.0", "v0.2.0"):
        subprocess.run(["git", "tag", tag], cwd=tagged, check=True)
    other = run(tagged, "scripts/release", "0.2.0")
    assert (other.returncode, other.stderr) == (1, "release: pyproject.toml says 0.1.0, not 0.2.0\n")
    undated = run(tagged, "scripts/release", "0.1.0")
    assert undated.returncode == 1
    assert "CHANGELOG.md has no dated section: ## 0.1.0 (YYYY-MM-DD)" in undated.stderr
    assert not (tagged / "dist").exists()


def test_what_setup_does_not_know_is_refused(repository: pathlib.Path) -> None:
    done = run(repository, "scripts/setup", "--all")
    assert (done.returncode, done.stderr) == (
        2,
        "setup: unknown option --all; use --dev, --spark, --test, --bench or nothing\n",
    )
    assert not (repository / ".venv").exists()
