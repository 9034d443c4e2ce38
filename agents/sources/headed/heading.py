"""What a format with headers knows of these: which lines they are, and what lines behind each are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrier
from elf.agents.sources.layouts.layout import Layout
from elf.agents.sources.lines import Ends


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

    def headers(self, data: bytes, ends: Ends, current: bytes) -> list[int]:
        """Return the numbers of the lines that are no rows.

        Args:
            data: clean lines.
            ends: of all of them.
            current: the header of the first ones, without its newline; empty if there is none.
        """

    def names_columns(self, line: bytes) -> bool:
        """Whether one of these says what the columns are; others are comments."""

    def layouts(self, header: bytes) -> Sequence[Layout]:
        """Return what rows below a header are made of, the first that fits each is its own.

        Raises:
            ConfigError: nothing, for it lacks the time of the event, say.
        """
