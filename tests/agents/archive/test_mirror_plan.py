"""Whatever happens here, and wherever the copying is cut short, readers of the copy find each event once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import fsspec
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elf.agents.archive.layout import MERGED, FileEntry, is_merged, list_files, manifest_path
from elf.agents.archive.mirror_plan import Own, Put, Remove, manifest_name, plan
from elf.agents.archive.remote import Remote, open_url
from tests.agents.archive.numbered import START_MS

HOURS = ("00", "01")


class Folder:
    """An archive of one agent whose files hold numbers, in their manifests; changed as agents change theirs."""

    def __init__(self) -> None:
        self.place = open_url("memory://here")
        self.numbers, self.sequence = itertools.count(), 0
        #: Numbers whose lines were read again since the copy was in step.
        self.moved: set[int] = set()

    def hour(self, hour: str, tree: str = "") -> Remote:
        return self.place / f"source=clicks/{tree}date=2026-01-01/hour={hour}"

    def names(self, hour: str, tree: str = "") -> list[str]:
        return sorted(path.name for path in self.hour(hour, tree).glob("[!.]*"))

    def write(self, path: Remote, numbers: set[int], size: int, replaces: tuple[str, ...] = ()) -> None:
        entry = FileEntry(
            path="", source="clicks", agent="w", sequence=0, rows=len(numbers), bytes=0,
            sha256=",".join(map(str, sorted(numbers))), first_ms=START_MS, last_ms=START_MS, columns={},
            replaces=replaces,
        )  # fmt: skip
        manifest_path(path).write_bytes(msgspec.json.encode(entry))
        path.write_bytes(b"x" * size)

    def entry(self, path: Remote) -> FileEntry:
        return msgspec.json.decode(manifest_path(path).read_bytes(), type=FileEntry)

    def drop(self, path: Remote) -> None:
        path.unlink()
        manifest_path(path).unlink()

    def log(self, hour: str, lot: int) -> None:
        self.sequence += 1
        self.write(self.hour(hour) / f"w-{self.sequence:010d}-000.parquet", {next(self.numbers)}, lot % 3 + 1)

    def merge(self, hour: str, lot: int) -> None:
        names = self.names(hour)
        parts = [name for index, name in enumerate(names) if lot >> index & 1]
        if len(parts) < 2 or self.names(hour, f"{MERGED}/"):
            return
        entries = [self.entry(self.hour(hour) / name) for name in parts]
        replaces = [each for name, entry in zip(parts, entries, strict=True) for each in (name, *entry.replaces)]
        stem = max(name[:12] for name in parts)
        free = (f"{stem}-m{number:03d}.parquet" for number in itertools.count())
        name = next(each for each in free if each not in (*names, *replaces))
        numbers = set().union(*(numbers_of(entry) for entry in entries))
        self.write(self.hour(hour, f"{MERGED}/") / name, numbers, 5, tuple(replaces))

    def show(self, hour: str, lot: int) -> None:
        for name in self.names(hour, f"{MERGED}/"):
            waiting = self.hour(hour, f"{MERGED}/") / name
            entry = self.entry(waiting)
            self.write(self.hour(hour) / name, numbers_of(entry), 5, entry.replaces)
            for part in entry.replaces:
                self.drop(self.hour(hour) / part)

    def forget(self, hour: str, lot: int) -> None:
        for name in self.names(hour, f"{MERGED}/"):
            if name in self.names(hour):
                self.drop(self.hour(hour, f"{MERGED}/") / name)

    def retain(self, hour: str, lot: int) -> None:
        """Remove a file by age; of one with two names both."""
        if names := self.names(hour):
            for tree in ("", f"{MERGED}/"):
                self.drop(self.hour(hour, tree) / names[lot % len(names)])

    def set_aside(self, hour: str, lot: int) -> None:
        """Read a file's lines again, into a file of the same name or another."""
        names = self.names(hour)
        if not names or set(self.names(hour, f"{MERGED}/")) - set(names):
            return
        name = names[lot % len(names)]
        numbers = numbers_of(self.entry(self.hour(hour) / name))
        self.moved |= numbers
        for tree in ("", f"{MERGED}/"):
            self.drop(self.hour(hour, tree) / name)
        self.sequence += 1
        again = name if lot % 2 and not is_merged(name) else f"w-{self.sequence:010d}-000.parquet"
        self.write(self.hour(hour) / again, numbers, 7)


def numbers_of(entry: FileEntry) -> set[int]:
    return set(map(int, entry.sha256.split(",")))


def read(place: Remote) -> set[int]:
    """What a reader finds; each number once."""
    found = [number for file in list_files(place, "clicks") for number in sorted(numbers_of(file.entry))]
    assert len(found) == len(set(found)), sorted(found)
    return set(found)


def bring_in_step(folder: Folder, copy: Remote, until: int | None, look: Callable[[], None]) -> None:
    """Do the first of the actions that bring a copy in step; `look` after each."""
    here, there = folder.place.sizes(), copy.sizes()
    for action in plan(here, there, [], lambda data: folder.entry(folder.place / data).replaces)[:until]:
        if isinstance(action, Put):
            (copy / action.name).write_bytes((folder.place / action.name).read_bytes())
        else:
            assert action.name in there
            (copy / action.name).unlink()
        look()


STEPS = ("log", "log", "log", "merge", "merge", "show", "forget", "retain", "set_aside", "copy", "copy in part")


AFTER_MERGE = [("show", "00", 0), ("forget", "00", 0)]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(HOURS), st.integers(0, 255)), max_size=40))
# A merge of what was merged while nobody copied: the copy has but the first small files.
@example([(step, "00", 3) for step in ("log", "log", "copy", "merge", "show", "forget", "log", "merge", "show")])
# The copy has a merged file and nothing of what it replaces, and the file has another name by now.
@example([*((step, "00", 3) for step in ("log", "log", "merge")), ("copy in part", "00", 2), *AFTER_MERGE])
def test_a_reader_of_the_copy_finds_each_event_once_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    store = fsspec.filesystem("memory")
    store.store.clear()
    folder, copy = Folder(), open_url("memory://there")
    for step, hour, lot in [*steps, ("copy", "00", 0)]:
        if not step.startswith("copy"):
            getattr(folder, step)(hour, lot)
            continue
        here = read(folder.place)
        kept = (read(copy) & here) - folder.moved

        def look(kept: set[int] = kept) -> None:
            assert kept <= read(copy)

        bring_in_step(folder, copy, lot % 8 if step == "copy in part" else None, look)
        if step == "copy":
            assert read(copy) == here
            assert copy.sizes() == folder.place.sizes()
            assert plan(folder.place.sizes(), copy.sizes(), [], lambda data: ()) == []
            folder.moved.clear()
    store.store.clear()


A, B, M = (f"source=x/date=d/hour=h/w-000000000{name}.parquet" for name in ("1-000", "2-000", "2-m000"))
A_, B_, M_ = map(manifest_name, (A, B, M))


def whole(*names: str) -> dict[str, int]:
    return {each: 1 for name in names for each in (name, manifest_name(name))}


@pytest.mark.parametrize(
    ("here", "there", "actions"),
    [
        (whole(A), {}, [Put(A_), Put(A)]),
        ({A: 1}, {}, []),
        (whole(A), {A: 1, A_: 2}, [Remove(A), Put(A_), Put(A)]),
        (whole(A), {A_: 1}, [Put(A_), Put(A)]),
        ({}, {A_: 1}, [Remove(A_)]),
        (whole(B), whole(A), [Remove(A), Remove(A_), Put(B_), Put(B)]),
        (whole(M), whole(A, B), [Put(M_), Put(M), Remove(A), Remove(A_), Remove(B), Remove(B_)]),
        (whole(M), whole(M, A), [Remove(A), Remove(A_)]),
        (whole(A), {**whole(A), A.replace("/w-", "/_new-w-"): 1}, [Remove(A.replace("/w-", "/_new-w-"))]),
    ],
)
def test_manifests_come_before_files_and_what_is_replaced_goes_last(
    here: dict[str, int], there: dict[str, int], actions: list[object]
) -> None:
    names = [name.rpartition("/")[2] for name in (A, B)]
    assert plan(here, there, [], lambda data: names) == actions
    assert plan(here, there, ["r"], lambda data: names) == [Put("r"), *actions]


def test_only_files_of_the_agent_are_its_own() -> None:
    own, hour = Own("web-1"), "source=clicks/date=2026-01-01/hour=00"
    for name in ("web-1-0000000001-000.parquet", ".web-1-0000000001-m000.json", "_new-.web-1-0000000001-000.json"):
        assert own.is_event_file(f"{hour}/{name}")
        assert own.is_event_file(f"source=clicks/{MERGED}/date=2026-01-01/hour=00/{name}")
        assert not own.is_event_file(name) and not own.is_record(f"{hour}/{name}")
    for name in (
        "web-1-0-0000000001-000.parquet",
        "web-10-0000000001-000.parquet",
        "_orphan-web-1-0000000001-000.parquet",
    ):
        assert not own.is_event_file(f"{hour}/{name}")
    assert own.is_record("source=clicks/.removed-web-1.json") and not own.is_record(
        "source=clicks/.removed-web-10.json"
    )
