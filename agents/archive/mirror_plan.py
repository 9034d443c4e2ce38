"""What brings a copy of one agent's archive in step with its folder: files to put there and to remove, in order. Pure.

Files are named by their path below the archive's folder. Readers of the copy (`layout.list_files`) go by its names and
manifests, as those of the folder do, and whenever the copying is cut short they find no event twice, and each that was
there before and is still here. So

1.  the records of what was removed go first: they may say too much, and never too little;
2.  then goes what is here no more, and was neither merged nor moved: removed by age or for room, or set aside because
    its lines are read again;
3.  then come the files that are not there yet, each after its manifest. From the moment that a merged file is there,
    readers leave out what it replaces;
4.  last goes what these replace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from elf.agents.archive.layout import MERGED, is_merged, safe_name
from elf.agents.archive.remote import NEW

_MERGED_TREE = f"/{MERGED}/"


class Put(msgspec.Struct, frozen=True):
    """Write a file there as it is here."""

    name: str


class Remove(msgspec.Struct, frozen=True):
    """Remove a file there."""

    name: str


Action = Put | Remove


class Own:
    """Tells which names are files of one agent: others may have theirs beside them."""

    def __init__(self, agent: str) -> None:
        name = re.escape(safe_name(agent))
        hour = rf"source=[^/]+/(?:{MERGED}/)?date=[^/]+/hour=[^/]+"
        self._event = re.compile(rf"{hour}/(?:{NEW})?\.?{name}-\d{{10}}-m?\d+\.(?:parquet|json)")
        self._record = re.compile(rf"source=[^/]+/\.removed-{name}\.json")

    def is_event_file(self, name: str) -> bool:
        """Tell events and manifests, also those that were being written when a copying ended."""
        return self._event.fullmatch(name) is not None

    def is_record(self, name: str) -> bool:
        """Tell the record of what was removed of a source."""
        return self._record.fullmatch(name) is not None


def manifest_name(data: str) -> str:
    """Return the name of the manifest of a file of events."""
    folder, _, name = data.rpartition("/")
    return f"{folder}/.{name.removesuffix('.parquet')}.json"


def plan(
    here: Mapping[str, int],
    there: Mapping[str, int],
    records: Iterable[str],
    replaces_of: Callable[[str], Sequence[str]],
) -> list[Action]:
    """Return what is to be done, in order; nothing where the copy is in step.

    Args:
        here: the agent's event files and manifests and their sizes; a file without a manifest is not committed yet.
        there: the same of the copy.
        records: records of what was removed that have changed since they were put there.
        replaces_of: tells the names, in its folder, of what a merged file here replaces; asked about what is put.
    """
    wanted = {data for data in here if _is_data(data) and manifest_name(data) in here}
    same = {data for data in wanted if all(here[name] == there.get(name) for name in (data, manifest_name(data)))}
    puts = sorted(wanted - same)
    awaited = {_shown(data) for data in puts}
    for data in puts:
        if is_merged(data.rpartition("/")[2]):
            folder = _shown(data).rpartition("/")[0]
            awaited.update(f"{folder}/{name}" for name in replaces_of(data))
    obsolete = sorted(data for data in there if _is_data(data) and data not in same)
    # What differs from its namesake here cannot stay until that is there.
    last = [data for data in obsolete if data not in wanted and _shown(data) in awaited]
    first = [data for data in obsolete if data in wanted or _shown(data) not in awaited]
    manifests = {manifest_name(data) for data in (*wanted, *obsolete)}
    stray = sorted(name for name in there if not _is_data(name) and name not in manifests)
    return [
        *(Put(name) for name in sorted(records)),
        *_removals(data for data in first if data not in wanted),
        *(Remove(data) for data in first if data in wanted),
        *(Remove(name) for name in stray),
        *(Put(name) for data in puts for name in (manifest_name(data), data)),
        *_removals(last),
    ]


def _removals(names: Iterable[str]) -> list[Action]:
    """Remove files before their manifests: a manifest alone misleads nobody, a file without one is damage."""
    return [Remove(name) for data in names for name in (data, manifest_name(data))]


def _is_data(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.endswith(".parquet") and not last.startswith(NEW)


def _shown(data: str) -> str:
    """Return the name that a file has, or will have, in its hour: under both it is the same events."""
    return data.replace(_MERGED_TREE, "/", 1)
