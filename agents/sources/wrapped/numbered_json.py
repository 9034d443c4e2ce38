"""Objects of which it is told which lines they are: each gets its line's number as one more member.

An object that may be an event ends with a brace; what does not is none, and is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec
import numpy as np
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Parsed
from elf.agents.sources.json_lines import JsonLines
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import Ends, line_ends, rows, valid_utf8

_NUMBER = "__elf_line__"
_MEMBER = re.compile(rb',"' + _NUMBER.encode() + rb'":[0-9]+(?=\}\n?$)')


class NumberedJson:
    """JSON lines; see `elf.agents.sources.format.Format`."""

    columns: Mapping[str, SqlType] | None = None
    addresses: Collection[str] = ()

    def __init__(self, lines: JsonLines) -> None:
        self.lines = lines

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType], numbers: list[Ends] | None = None) -> Parsed:
        """Parse lines; the numbers of those that are events go to `numbers`."""
        if numbers is None:
            return self.lines.parse(lines, wanted)
        texts, ends = lines.data, lines.ends
        if not texts.isascii():
            texts, bad = valid_utf8(texts)
            ends = line_ends(texts) if bad else ends
        column = rows(texts, np.append(0, ends + 1)).alias("text")
        line = pl.col("text").str.strip_chars_end(" \t\r\n").str
        member = pl.concat_str(
            line.strip_suffix("}"), pl.lit(f',"{_NUMBER}":'), pl.int_range(pl.len()).cast(pl.String), pl.lit("}\n")
        )
        # An empty object has no time, so it is no event.
        is_object = line.ends_with("}") & ~line.ends_with("{}")
        numbered = column.to_frame().select(pl.when(is_object).then(member).otherwise("text")).to_series()
        data = numbered.str.join("").cast(pl.Binary).item() if len(ends) else b""
        kept = msgspec.structs.replace(lines, data=data, ends=line_ends(data))
        parsed = self.lines.parse(kept, {**wanted, _NUMBER: SqlType.BIGINT})
        numbers.append(parsed.events[_NUMBER].to_numpy().astype(np.int64))
        rejects = tuple((_MEMBER.sub(b"", line), reason) for line, reason in parsed.rejects)
        return msgspec.structs.replace(parsed, events=parsed.events.drop(_NUMBER), rejects=rejects)
