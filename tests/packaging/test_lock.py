"""What is installed is what was tested: bounds, lock and bill of materials say the same."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import version

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.packaging.building import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
LOCK = (ROOT / "requirements.lock").read_text()
BOM = json.loads((ROOT / "sbom.json").read_text())
#: Who installs a release has these, and with them what they need.
WANTED = [Requirement(line) for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["zstd"]]]
#: The environment that the bill of materials is of.
HERE = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.7",
    "python_version": "3.11",
    "sys_platform": "linux",
}


def locked() -> list[tuple[str, str, Marker | None, list[str]]]:
    """Return name, version, marker and hashes of each entry of the lock."""
    entries = []
    for entry in re.split(r"\n(?=\S)", LOCK.replace("\\\n", "").strip()):
        line, *hashes = re.split(r"\s+--hash=", entry.strip())
        wanted = Requirement(line)
        [exact] = wanted.specifier
        assert exact.operator == "==", line
        entries.append((canonicalize_name(wanted.name), exact.version, wanted.marker, hashes))
    return entries


@pytest.mark.parametrize(
    "line",
    [
        *SETTINGS["build-system"]["requires"],
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ],
)
def test_every_dependency_has_an_upper_bound(line: str) -> None:
    assert {each.operator for each in Requirement(line).specifier} & {"<", "<=", "=="}, line


def test_every_file_is_known_by_its_hash() -> None:
    for name, _, _, hashes in locked():
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), name


def test_nothing_says_where_packages_come_from() -> None:
    assert not re.search(r"://|^\s*-(?!-hash)|@\s*file", LOCK, flags=re.MULTILINE)
    addresses = {found for found in re.findall(r"\w+://[^\"]*", json.dumps(BOM))}
    assert addresses == {BOM["$schema"]}


def test_what_is_locked_is_what_the_package_allows() -> None:
    versions: dict[str, list[str]] = {}
    for name, exact, _, _ in locked():
        versions.setdefault(name, []).append(exact)
    for wanted in WANTED:
        found = versions[canonicalize_name(wanted.name)]
        assert all(wanted.specifier.contains(each) for each in found), wanted
    assert SpecifierSet(PROJECT["requires-python"]).contains(HERE["python_version"])


def test_what_is_locked_is_what_is_tested() -> None:
    """Of the packages that are named; the tests' environment has newer ones as soon as it is made anew."""
    here = {name: exact for name, exact, marker, _ in locked() if marker is None or marker.evaluate(HERE)}
    for wanted in WANTED:
        ours, tested = here[canonicalize_name(wanted.name)], version(wanted.name)
        assert ours.split(".")[:1] == tested.split(".")[:1], f"{wanted.name}: {ours} is locked, {tested} is here"


def test_the_bill_of_materials_is_that_of_the_lock() -> None:
    here = {(name, exact) for name, exact, marker, _ in locked() if marker is None or marker.evaluate(HERE)}
    assert {(canonicalize_name(each["name"]), each["version"]) for each in BOM["components"]} == here
    assert all(each["purl"].startswith("pkg:pypi/") and each["licenses"] for each in BOM["components"])
    root = BOM["metadata"]["component"]
    assert (root["name"], root["version"]) == (PROJECT["name"], PROJECT["version"])
    [needed] = [each["dependsOn"] for each in BOM["dependencies"] if each["ref"] == root["bom-ref"]]
    assert {canonicalize_name(each.partition("==")[0]) for each in needed} == {
        canonicalize_name(each.name) for each in WANTED
    }
