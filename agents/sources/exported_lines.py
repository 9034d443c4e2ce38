"""The journal as `journalctl -o export` writes it: entries of several lines, of which the texts are other lines."""

from __future__ import annotations

from collections.abc import Sequence

from elf.agents.sources.carried import Carrier
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import clean
from elf.agents.sources.wrapped.exported import BegunEntries, entries
from elf.agents.sources.wrapped.wrappers import Wrapper
from elf.agents.sources.wrapped_lines import Inner, WrappedLines


class ExportedLines(WrappedLines):
    """The framing `journal-export`; see `elf.agents.sources.format.Format`. Entries become the objects of a wrapper.

    An entry counts as a line; its other lines are parts.

    Args:
        name: what the configuration calls it.
        wrapper: what entries stand in as objects.
        inner: what their texts are; None: texts.

    Attributes:
        of_objects: reads entries once they are objects, each on a line.
    """

    def __init__(self, name: str, wrapper: Wrapper, inner: Inner | None) -> None:
        super().__init__(name, wrapper, inner)
        self.of_objects = WrappedLines(name, wrapper, inner)
        self._carrier = BegunEntries()

    @property
    def carrier(self) -> Carrier | None:
        """What knows which lines have begun an entry."""
        return self._carrier

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        """Keep the lines of whole entries, as objects; see `elf.agents.sources.format.Format`."""
        whole = b"".join([*carried, chunk])
        whole += b"" if whole.endswith(b"\n") or not whole else b"\n"
        found = entries(whole, is_over=not chunk)
        lines = clean(found.objects)
        read = whole.count(b"\n", 0, found.begun)
        rests = read - len(lines.ends) - len(lines.huge)
        return Kept(lines.data, lines.ends, lines.huge, oddities=lines.oddities, rests=rests)

    def objects_in(self, sample: bytes) -> bytes:
        """Return the whole entries of a sample as objects, each on a line."""
        return entries(sample[: sample.rfind(b"\n") + 1], is_over=False).objects

    def texts_in(self, sample: bytes) -> bytes:
        """Return the lines that stand in some entries, as lines of their own."""
        return super().texts_in(self.objects_in(sample))

    def fields_of(self, line: bytes) -> dict[str, object]:
        """Return what is around the text of an entry that is an object, and the text."""
        return self.of_objects.fields_of(line)
