"""The house rules that a machine can hold: import directions, pure modules, sizes (DESIGN section 2, STYLE 3)."""

import ast
import functools
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ALLOWED = {
    "elf": {"elf", "agents", "overlay", "cbt"},
    "agents": {"agents", "overlay", "cbt"},
    "overlay": {"overlay"},
    "cbt": {"cbt"},
}
#: Decisions: state in, effects out. They never see a clock, a socket, a file or a thread.
PURE = [
    "cbt/aggregates/*.py", "cbt/folding.py", "cbt/schema.py", "cbt/codec.py", "cbt/frames.py", "cbt/words.py",
    "cbt/strings.py", "cbt/columns.py", "cbt/hashing.py", "cbt/rows.py", "cbt/reducing.py", "cbt/bits.py",
    "cbt/blocks.py", "cbt/patching.py", "cbt/root.py", "cbt/nodes.py", "cbt/arena.py", "cbt/settings.py",
    "cbt/checks.py", "cbt/aligned.py", "cbt/partitions.py", "cbt/placed.py",
    "overlay/ids.py", "overlay/contract.py", "overlay/messages.py", "overlay/effects.py", "overlay/application.py",
    "overlay/routing.py", "overlay/pressure.py", "overlay/decoding.py", "overlay/placement.py",
    "overlay/tree/*.py", "overlay/rollup/*.py", "overlay/control/*.py",
    "overlay/links/wire.py", "overlay/links/handshake.py", "overlay/links/channel.py", "overlay/links/lanes.py",
    "overlay/links/layer.py", "overlay/links/peers.py",
    "overlay/dht/table.py", "overlay/dht/hints.py", "overlay/dht/lookup.py", "overlay/dht/pace.py",
    "overlay/sim/topology.py", "overlay/sim/roots.py",
    "agents/worker.py", "agents/runs.py", "agents/open_intervals.py", "agents/sharing/trees.py",
    "agents/sharing/copies.py", "agents/sharing/event_frame.py",
    "agents/payload.py", "agents/masters/beginning.py", "agents/masters/results.py", "agents/catalogue.py",
    "agents/requests.py", "agents/replies.py", "agents/result.py",
    "agents/parts/requests.py", "agents/parts/parts.py", "agents/parts/due.py",
    "agents/replication/keeping.py", "agents/replication/inherited.py",
    "agents/publishing/holds.py", "agents/history/labels.py", "agents/history/totals.py", "agents/history/merged.py",
    "agents/sides/words.py", "agents/sides/handed.py", "agents/archive/mirroring.py",
    "elf/offline/pipeline/growth.py", "elf/offline/pipeline/due.py", "elf/offline/backfill/coverage.py",
    "elf/offline/verify/lacks.py", "elf/offline/verify/passes.py", "elf/offline/verify/coverage.py",
    "elf/offline/verify/published.py",
    "elf/offline/verify/compare.py", "elf/offline/verify/tolerance.py", "elf/offline/since.py",
    "agents/signed/signing.py", "agents/signed/allowance.py",
    "agents/installed/declaring.py", "agents/installed/calling.py",
    "agents/applications/messages.py", "agents/applications/contract.py", "agents/applications/declaring.py",
    "agents/applications/instance.py", "agents/applications/simulated.py",
    "agents/jobs/*.py", "agents/jobs/functions/*.py", "agents/sources/rotation.py",
    "agents/sources/misfits.py",
]  # fmt: skip
IMPURE = {"asyncio", "socket", "ssl", "threading", "time", "os", "subprocess", "random", "sqlite3", "aiohttp"}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager"}
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70


@functools.cache
def parse(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def sources() -> list[pathlib.Path]:
    return sorted(path for package in ALLOWED for path in (ROOT / package).rglob("*.py"))


def imported(path: pathlib.Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: pathlib.Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert imported(path) & set(ALLOWED) <= ALLOWED[package]
    assert not imported(path) & {"pickle", "cloudpickle", "marshal", "shelve"}
    assert package != "overlay" or "polars" not in imported(path)


@pytest.mark.parametrize("pattern", PURE)
def test_decisions_are_pure(pattern: str) -> None:
    paths = sorted(ROOT.glob(pattern))
    assert paths, f"{pattern} names no file"
    for path in paths:
        found = imported(path) & IMPURE
        if found == {"random"}:
            calls = [n for n in ast.walk(parse(path)) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
            found = {f"random.{n.attr}" for n in calls if n.value.id == "random" and n.attr != "Random"}  # type: ignore[attr-defined]
        assert not found, f"{path.relative_to(ROOT)} must not use {found}"
        assert "datetime.now" not in path.read_text()


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes_and_names(path: pathlib.Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX
    assert path.stem not in FORBIDDEN_NAMES
    assert ast.get_docstring(parse(path)), "a module says what it owns"
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno + 1 <= FUNCTION_LINES_MAX, node.name


OFFLINE = ROOT / "elf" / "offline"


@pytest.mark.parametrize("path", sorted(OFFLINE.rglob("*.py")), ids=lambda path: str(path.relative_to(OFFLINE)))
def test_offline_features_know_nothing_of_each_other(path: pathlib.Path) -> None:
    """What is shared lies beside verify, backfill and pipeline, and imports none of them."""
    features = {"verify", "backfill", "pipeline"} - {path.parent.name}
    modules = [node.module or "" for node in ast.walk(parse(path)) if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in ast.walk(parse(path)) if isinstance(node, ast.Import) for name in node.names]
    assert not [name for name in modules if name.startswith(tuple(f"elf.offline.{each}" for each in features))]
    assert "elf.offline" not in modules, "name the module"


def test_stores_at_urls_are_known_at_one_place_and_only_when_one_is_opened() -> None:
    """Agents and readers of folders run without fsspec."""
    for path in sources():
        if "fsspec" in imported(path):
            assert path == ROOT / "agents" / "archive" / "remote.py"
            top = [node for node in parse(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
            assert not [node for node in top if "fsspec" in ast.unparse(node)]


def test_spark_is_never_needed_on_a_web_server() -> None:
    for package in ("agents", "overlay", "cbt"):
        for path in (ROOT / package).rglob("*.py"):
            assert "pyspark" not in imported(path), path
