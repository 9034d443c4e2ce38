"""What a format with headers knows of these: which lines they are, and what lines behind each are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrier
from elf.agents.sources.layouts.layout import Layout
from elf.agents.sources.lines import Ends


class LaidOut(NamedTuple):
    """What lines are.

    Attributes:
        headers: the numbers of those that are no rows.
        lasts: of each row and each header the number of the line that it ends with; None: each has one line.
        begun: the line with which a row begins that has no end yet; the number of lines if none does.
    """

    headers: Sequence[int]
    lasts: Ends | None
    begun: int


class Heading(Carrier, Protocol):
    """The headers of a format."""

    @property
    def columns(self) -> Mapping[str, SqlType] | None:
        """Every column but `ts` that lines can have; None: headers name what they like."""

    @property
    def addresses(self) -> Collection[str]:
        """The columns that hold addresses."""

    @property
    def escape(self) -> str | None:
        """What values have in them that are not as logged; None if all are."""

    def parted(self, carried: Sequence[bytes]) -> tuple[bytes, Sequence[bytes]]:
        """Return the header of what is carried, empty if there is none, and the first lines of a row."""

    def pieces(self, text: bytes) -> Sequence[tuple[int, int]]:
        """Return where the pieces of a text begin and end that no row goes beyond."""

    def laid_out(self, data: bytes, ends: Ends, current: bytes, *, is_over: bool) -> LaidOut:
        """Tell rows from headers.

        Args:
            data: clean lines.
            ends: of all of them.
            current: the header of the first ones, without its newline; empty if there is none.
            is_over: nothing follows them.
        """

    def names_columns(self, line: bytes) -> bool:
        """Whether one of these says what the columns are; others are comments."""

    def layouts(self, header: bytes) -> Sequence[Layout]:
        """Return what rows below a header are made of, the first that fits each is its own.

        Raises:
            ConfigError: nothing, for it lacks the time of the event, say.
        """
