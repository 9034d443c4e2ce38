"""The house rules that a machine can hold: layers, import directions, pure modules, sizes (HOUSE.md, STYLE 3)."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

from tests.house.layers import LAYERS, crossings, layer
from tests.house.modules import PACKAGES, ROOT, imported, name_of, names, parse, sources, top
from tests.house.sizes import FILE_LINES_MAX, FUNCTION_LINES_MAX, entangled, functions, overloaded, packed

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
    "cbt/aligned.py", "cbt/partitions.py", "cbt/placed.py",
    "overlay/ids.py", "overlay/contract.py", "overlay/messages.py", "overlay/effects.py", "overlay/decoding.py",
    "overlay/tree/*.py", "overlay/rollup/*.py", "overlay/control/*.py", "overlay/dht/table.py",
    "agents/worker/payload.py", "agents/wire/re*.py", "agents/wire/shares.py",
    "agents/language/installed/calls.py", "agents/sources/files/rotation.py",
    "agents/language/*.py", "agents/language/functions/*.py", "agents/jobs/*.py",
    "elf/offline/verify/tolerance.py", "elf/offline/since.py",
]  # fmt: skip
#: What a module's docstring calls itself: a sentence or a part of one that begins so, or ends.
SAYS_PURE = re.compile(r"(?:^|[.:;]\s+)pure\b|\bpure(?=[.;])", re.IGNORECASE)
IMPURE = {"asyncio", "socket", "ssl", "threading", "time", "os", "subprocess", "random", "sqlite3", "aiohttp"}
#: Folders of kernels in C.
NATIVE = ("cbt/native", "agents/sources/native")
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager"}
FORBIDDEN_LIBRARIES = {"pickle", "cloudpickle", "marshal", "shelve"}


def libraries(path: pathlib.Path) -> set[str]:
    """Return what a module imports, by the first part of its name."""
    return {each.partition(".")[0] for each in imported(path)}


def test_imports_run_one_way() -> None:
    wrong = [
        (name_of(path), each)
        for path in sources()
        for each in imported(path)
        if each.partition(".")[0] == "elf" and top(each) not in ALLOWED[path.relative_to(ROOT).parts[0]]
    ]
    assert not wrong
    assert not [path for path in sources() if libraries(path) & FORBIDDEN_LIBRARIES]
    assert not [path for path in (ROOT / "overlay").rglob("*.py") if "polars" in libraries(path)]


def test_layers_of_an_agent() -> None:
    """No import runs up, so folders make no circle; every folder has its layer."""
    assert {layer(name) for name in names()} - {None} == set(LAYERS)
    assert not list(crossings())


def test_links_lead_to_the_folders() -> None:
    """One package is installed; a checkout without symbolic links (`git config core.symlinks`) cannot be used."""
    for package in PACKAGES[1:]:
        link = ROOT / "elf" / package
        assert link.is_symlink() and link.readlink() == pathlib.Path("..", package), f"{link} is no link"


def pure() -> list[pathlib.Path]:
    """Return the modules whose docstrings say that they are pure, and those of the list."""
    assert all(any(ROOT.glob(pattern)) for pattern in PURE)
    said = {path for path in sources() if SAYS_PURE.search(ast.get_docstring(parse(path)) or "")}
    return sorted(said.union(*(ROOT.glob(pattern) for pattern in PURE)))


def impurities(path: pathlib.Path) -> Iterator[str]:
    """Find what a decision must not use."""
    found = libraries(path) & IMPURE
    nodes = list(ast.walk(parse(path)))
    if found == {"random"}:
        named = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
        found = {
            f"random.{each.attr}" for each in named if ast.unparse(each.value) == "random" and each.attr != "Random"
        }
    yield from found
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    yield from called & {"open", "datetime.now", "datetime.datetime.now"}


def test_decisions_are_pure() -> None:
    assert not {str(path.relative_to(ROOT)): found for path in pure() if (found := list(impurities(path)))}


def test_agents_draw_from_the_randomness_they_are_handed() -> None:
    """Or one seed of the World is not one run."""
    assert not [path for path in (ROOT / "agents").rglob("*.py") if "secrets" in libraries(path)]


def test_names_and_docstrings() -> None:
    assert not [path for path in sources() if path.stem in FORBIDDEN_NAMES]
    assert not [path for path in sources() if not ast.get_docstring(parse(path))], "a module says what it owns"


def test_sizes() -> None:
    for path in sources():
        assert len(path.read_text().splitlines()) <= FILE_LINES_MAX, path
    assert not [(path, name) for path in sources() for name, lines in functions(path) if lines > FUNCTION_LINES_MAX]


def test_constructors_and_imports_are_few() -> None:
    """A class takes what it can be understood with, a module uses what it can be."""
    assert not overloaded()
    assert not entangled()
    assert not [(path, line) for path in sources() for line in packed(path)], "one attribute, one line"


def test_sizes_in_c() -> None:
    for path in sorted(each for folder in NATIVE for each in (ROOT / folder).glob("*.[ch]")):
        text = path.read_text()
        assert text.startswith("/* "), f"{path} says what it owns"
        assert len(text.splitlines()) <= FILE_LINES_MAX
        for body in re.findall(r"^\{\n(.*?)^\}$", text, re.DOTALL | re.MULTILINE):
            assert len(body.splitlines()) <= FUNCTION_LINES_MAX


def test_offline_features_know_nothing_of_each_other() -> None:
    """What is shared lies beside verify, backfill and pipeline, and imports none of them."""
    for path in sorted((ROOT / "elf" / "offline").rglob("*.py")):
        features = {"verify", "backfill", "pipeline"} - {path.parent.name}
        others = tuple(f"elf.offline.{each}" for each in features)
        assert not [name for name in imported(path) if name.startswith(others)], path
        assert "elf.offline" not in imported(path), f"{path}: name the module"


def test_stores_at_urls_are_known_at_one_place_and_only_when_one_is_opened() -> None:
    """Agents and readers of folders run without fsspec."""
    for path in sources():
        if "fsspec" in libraries(path):
            assert path == ROOT / "agents" / "archive" / "remote.py"
            top_level = [node for node in parse(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
            assert not [node for node in top_level if "fsspec" in ast.unparse(node)]


def test_spark_is_never_needed_on_a_web_server() -> None:
    for path in sources():
        assert path.relative_to(ROOT).parts[0] == "elf" or "pyspark" not in libraries(path), path


def test_the_map_is_true() -> None:
    """Every file that the map names is there, every folder of an agent is on it, and no way has over twelve files."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:elf|agents|overlay|cbt|tests)/[\w./]+\.py)`", text))
    assert named and not [each for each in sorted(named) if not (ROOT / each).is_file()]
    layers = text.split("## The layers")[1].split("## The way")[0]
    folders = {path.name for path in (ROOT / "agents").iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert folders == set(re.findall(r"^\| `(\w+)/` \|", layers, re.MULTILINE))
    for way in text.split("\n## The way of ")[1:]:
        assert len(set(re.findall(r"`[\w./]+\.py`", way))) <= 12, way.splitlines()[0]
