"""Installed applications are found by name; what cannot be used says why."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from elf.agents.errors import JobSpecError
from elf.agents.extensions import installed_applications
from elf.agents.jobs.definition import load_definition

MODULE = """
import elf

class Bundling(elf.Application):
    pass

not_one = elf.Application()
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, points: Mapping[str, str]) -> None:
    info = folder / "apps-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: apps\nVersion: 1.0\n")
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (info / "entry_points.txt").write_text(f"[{installed_applications.GROUP}]\n" + "".join(lines))
    (folder / "apps_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    monkeypatch.setattr(installed_applications, "_installed", None)


def test_an_installed_application_is_found_and_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    points = {
        "bundling": "apps_module:Bundling",
        "made": "apps_module:not_one",
        "none": "apps_module:Nothing",
        "Big": "apps_module:Bundling",
    }
    install(tmp_path, monkeypatch, points)
    with caplog.at_level(logging.WARNING):
        assert installed_applications.find_application("bundling").__name__ == "Bundling"
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "applications of the installed package apps 1.0 cannot be used: Big: 'Big' is"
    )
    for name, why in {
        "made": "cannot be used: apps_module:not_one is no class made of elf.Application",
        "none": "cannot be used: apps_module:Nothing cannot be imported",
        "bundlin": "no application 'bundlin' is installed; did you mean 'bundling'",
    }.items():
        with pytest.raises(JobSpecError, match=why) as caught:
            installed_applications.find_application(name)
        assert caught.value.setting == "options.application"


def test_where_none_is_installed_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_applications, "_installed", installed_applications.Found({}, {}, {}))
    with pytest.raises(JobSpecError, match="no application 'bundling' is installed; none is"):
        installed_applications.find_application("bundling")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('application = "Best"', "application = 'Best' is no name of an application"),
        ("application = 3", "application = 3 is no name of an application"),
        ('application = ""', "application = '' is no name of an application"),
        ('feedback = 2\napplication = "best"', "a job with an application has what that publishes"),
    ],
)
def test_options_that_name_no_application_are_refused(options: str, said: str) -> None:
    text = (
        f'name = "sold"\nquery = "SELECT product, count(*) AS n FROM orders GROUP BY product"\n[options]\n{options}\n'
    )
    with pytest.raises(JobSpecError, match=f"^4:1: {said}"):
        load_definition(text)
