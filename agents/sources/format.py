"""What a log format is to the rest of the agent, and the one place that knows them by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from elf.agents.errors import ConfigError, did_you_mean, nearest
from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Parsed
from elf.agents.sources.json_lines import JsonLines
from elf.agents.sources.kept import Kept


class Format(Protocol):
    """Makes event frames of whole lines, in two steps: lines that no job can want are skipped before any is parsed.

    `columns` is the fixed schema of a format, or None where the lines themselves name their columns (json).
    """

    @property
    def name(self) -> str:
        """The name, or the pasted text, that the configuration used."""

    @property
    def columns(self) -> Mapping[str, SqlType] | None:
        """Every column of a fixed schema without `ts`, or None."""

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = ()) -> Kept:
        """Keep the lines that some job may want, clean.

        Args:
            chunk: whole lines; the last newline may be missing.
            literals: one entry a job, the texts that all must occur in a line for that job to want it. A line that no
                job wants is skipped unparsed (`filtered`); an empty entry, or no entry, wants every line.
        """

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType]) -> Parsed:
        """Parse lines into a frame of `ts` and the wanted columns; lines that were skipped are accounted for, too.

        Args:
            lines: what `keep` returned, once or several times.
            wanted: columns to fill, with their types; a column the lines do not have is null.
        """


def parse_chunk(
    format: Format, chunk: bytes, wanted: Mapping[str, SqlType], literals: Sequence[Sequence[str]] = ()
) -> Parsed:
    """Take both steps; the arguments are theirs."""
    return format.parse(format.keep(chunk, literals), wanted)


def make_format(spec: str, *, time: str = "ts") -> Format:
    """Make the format that a configuration names or pastes.

    Args:
        spec: `json`, `combined`, `common`, or an nginx `log_format` / Apache `LogFormat` (directive or its string).
        time: for json, the field that holds the event time.

    Raises:
        ConfigError: the text is none of these; it says what would be right.
    """
    if spec == "json":
        return JsonLines(time)
    # Not loaded by an agent that reads only JSON.
    from elf.agents.sources.access_log import NAMED, AccessLog

    if spec in NAMED:
        return AccessLog(spec, NAMED[spec])
    if "$" not in spec and "%" not in spec:
        raise ConfigError(
            f"unknown format {spec!r}{did_you_mean(nearest(spec, ['json', *NAMED]))}; "
            "use json, combined, common, or paste an nginx log_format or Apache LogFormat line"
        )
    return AccessLog(spec, spec)
