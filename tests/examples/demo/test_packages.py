"""Packages of examples are found by processes that are started afterwards, by their entry points."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from examples.demo.packages import install

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def test_agents_find_the_applications_and_functions_of_packages(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    install(tmp_path, EXAMPLES / "product_bundling", EXAMPLES / "sale_prediction", EXAMPLES / "functions")
    program = """
from elf.agents.extensions.installed_applications import find_application
from elf.agents.language.installed.installed import installed
print(find_application("bundling").__name__, find_application("prediction").__name__, sorted(installed().functions))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Bundling Prediction ['")
