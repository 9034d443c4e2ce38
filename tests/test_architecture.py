"""The house rules that a machine can hold: import directions, pure modules, sizes (DESIGN section 2, STYLE 3)."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ALLOWED = {
    "elf": {"elf", "agents", "overlay", "cbt"},
    "agents": {"agents", "overlay", "cbt"},
    "overlay": {"overlay"},
    "cbt": {"cbt"},
}
#: Decisions: state in, effects out. They never see a clock, a socket, a file or a thread. Beside those whose docstring
#: says so ("Pure"), these are; most are of packages that are so as a whole.
PURE = [
    "cbt/aggregates/*.py", "cbt/folding.py", "cbt/schema.py", "cbt/codec.py", "cbt/frames.py", "cbt/words.py",
    "cbt/strings.py", "cbt/columns.py", "cbt/hashing.py", "cbt/rows.py", "cbt/reducing.py", "cbt/bits.py",
    "cbt/blocks.py", "cbt/patching.py", "cbt/root.py", "cbt/nodes.py", "cbt/arena.py", "cbt/settings.py",
    "cbt/checks.py", "cbt/aligned.py", "cbt/partitions.py", "cbt/placed.py",
    "overlay/ids.py", "overlay/contract.py", "overlay/messages.py", "overlay/effects.py", "overlay/decoding.py",
    "overlay/tree/*.py", "overlay/rollup/*.py", "overlay/control/*.py", "overlay/dht/table.py",
    "agents/payload.py", "agents/requests.py", "agents/replies.py", "agents/parts/requests.py",
    "agents/replication/keeping.py", "agents/installed/calling.py", "agents/sources/rotation.py",
    "agents/jobs/*.py", "agents/jobs/functions/*.py",
    "elf/offline/verify/tolerance.py", "elf/offline/since.py",
]  # fmt: skip
#: What a module's docstring calls itself: a sentence or a part of one that begins so, or ends.
SAYS_PURE = re.compile(r"(?:^|[.:;]\s+)pure\b|\bpure(?=[.;])", re.IGNORECASE)
IMPURE = {"asyncio", "socket", "ssl", "threading", "time", "os", "subprocess", "random", "sqlite3", "aiohttp"}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager"}
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70


@functools.cache
def parse(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def sources() -> list[pathlib.Path]:
    """Return the product's modules; the links from `elf` to the other folders are not followed."""
    return sorted(path for package in ALLOWED for path in (ROOT / package).rglob("*.py"))


def layer(module: str) -> str:
    """Return the folder at the top that a module is below: `elf.agents.x` is of `agents`, `elf.cli.x` of `elf`."""
    parts = module.split(".")
    return parts[1] if parts[0] == "elf" and len(parts) > 1 and parts[1] in ALLOWED else parts[0]


def imported(path: pathlib.Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {layer(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(layer(node.module or ""))
            if node.module == "elf":
                names |= {layer(f"elf.{alias.name}") for alias in node.names}
    return names


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: pathlib.Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert imported(path) & set(ALLOWED) <= ALLOWED[package]
    assert not imported(path) & {"pickle", "cloudpickle", "marshal", "shelve"}
    assert package != "overlay" or "polars" not in imported(path)


def pure() -> list[pathlib.Path]:
    """Return the modules whose docstrings say that they are pure, and those of the list."""
    said = {path for path in sources() if SAYS_PURE.search(ast.get_docstring(parse(path)) or "")}
    return sorted(said.union(*(ROOT.glob(pattern) for pattern in PURE)))


@pytest.mark.parametrize("pattern", PURE)
def test_patterns_name_files(pattern: str) -> None:
    assert any(ROOT.glob(pattern))


@pytest.mark.parametrize("path", pure(), ids=lambda path: str(path.relative_to(ROOT)))
def test_decisions_are_pure(path: pathlib.Path) -> None:
    found = imported(path) & IMPURE
    if found == {"random"}:
        calls = [n for n in ast.walk(parse(path)) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
        found = {f"random.{n.attr}" for n in calls if n.value.id == "random" and n.attr != "Random"}  # type: ignore[attr-defined]
    assert not found, f"{path.relative_to(ROOT)} must not use {found}"
    called = {
        node.func.id for node in ast.walk(parse(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "open" not in called
    assert "datetime.now" not in path.read_text()


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes_and_names(path: pathlib.Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX
    assert path.stem not in FORBIDDEN_NAMES
    assert ast.get_docstring(parse(path)), "a module says what it owns"
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno + 1 <= FUNCTION_LINES_MAX, node.name


@pytest.mark.parametrize("path", sorted((ROOT / "cbt" / "native").glob("*.[ch]")), ids=lambda path: path.name)
def test_sizes_in_c(path: pathlib.Path) -> None:
    text = path.read_text()
    assert text.startswith("/* "), "a file says what it owns"
    assert len(text.splitlines()) <= FILE_LINES_MAX
    for body in re.findall(r"^\{\n(.*?)^\}$", text, re.DOTALL | re.MULTILINE):
        assert len(body.splitlines()) <= FUNCTION_LINES_MAX


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
