"""What becomes of a source's rejected lines: a sample is kept, and that nearly all of them are rejected is said, once.

Runs in the source's data thread; `trouble` may be read by others.
"""

from __future__ import annotations

import logging

from elf.agents.intake.decoder import Decoder
from elf.agents.sources.counters import Parsed
from elf.agents.sources.format import Format
from elf.agents.sources.misfits import Misfits
from elf.agents.sources.rejected import RejectedLines
from elf.agents.worker.worker import Worker

log = logging.getLogger(__name__)
#: Of an example in the log; the whole line is kept in the file.
_EXAMPLE_BYTES = 120
#: How far ahead it is noted at a time that lines are missing: each time is a gap in labels, and mistakes may last.
NOTED_MS = 10_000


class Rejecting:
    """Takes the rejected lines of one source.

    Args:
        source: its name.
        kept: where the sample is kept.
        had_events: any line of the source was ever an event.
    """

    def __init__(self, source: str, kept: RejectedLines, *, had_events: bool) -> None:
        self._source = source
        self._kept = kept
        self._misfits = Misfits(had_events=had_events)
        #: A rejected line and the reason, as they are and as people may see them.
        self._example = self._shown = (b"", "")
        #: Since when lines are missing, None for ever, and up to here it is noted; 0: nothing is.
        self._since_ms: int | None = None
        self._noted_ms = 0
        #: While nearly all lines are rejected: how many, why, and what would be right; for `/readyz`.
        self.trouble: str | None = None

    def take(
        self, decoder: Decoder, parsed: Parsed, stream: str, newest_ms: int | None, rested_ms: int, now_ms: int
    ) -> tuple[int | None, int] | None:
        """Take what was rejected of some lines of a log.

        Args:
            decoder: what the lines were taken for, and what people may see of one.
            parsed: the lines.
            stream: the log.
            newest_ms: the time of the last event of the log; None: no idea.
            rested_ms: when there was nothing more to read of any log.
            now_ms: by our clock.

        Returns:
            While nearly all is, a run of time in which the log's events are missing and that was not returned yet, for
            labels: since when, None for ever, and until when. Rejected lines have no time: these may be of any since
            the last event, or later on since there was nothing more to read.
        """
        rejects = decoder.redactor.rejects(parsed.rejects)
        if rejects:
            self._example = parsed.rejects[0]
            self._shown = rejects[0]
        try:
            self._kept.keep(rejects)
        except OSError as error:
            # A sample for people; the counters have every line. The chunk's events must not go with it.
            log.error("source %s: rejected lines cannot be kept: %s", self._source, error)
        lines = parsed.counters
        is_other = self._misfits.note(lines.parsed, lines.rejected, lines.filtered)
        if is_other and self._misfits.prevail:
            self.trouble = self._described(decoder.format, stream)
            log.warning("source %s: %s; results lack these lines, and say so", self._source, self.trouble)
        elif is_other:
            self.trouble = None
            self._noted_ms = 0
            log.warning("source %s: most of its lines are events again", self._source)
        if self.trouble is None or not lines.rejected:
            return None
        if not self._noted_ms or self._is_earlier(newest_ms):
            since_ms = self._since_ms = newest_ms
        elif now_ms >= self._noted_ms:
            since_ms = max(self._noted_ms, rested_ms)
        else:
            return None
        self._noted_ms = now_ms + NOTED_MS
        return since_ms, self._noted_ms

    def _is_earlier(self, newest_ms: int | None) -> bool:
        """Whether a log's lines may be of a time before all that is noted: logs need not be as far as each other."""
        return self._since_ms is not None and (newest_ms is None or newest_ms < self._since_ms)

    def tell(self, worker: Worker) -> None:
        """Let a worker that counts from now on, or something else, remember what others do of all that `take` returned.

        It would have to wait for the next run otherwise, and what is closed until then would count as complete.
        """
        if self._noted_ms:
            worker.note_gap(self._since_ms, self._noted_ms)

    def _described(self, format: Format, stream: str) -> str:
        # It knows every format; agents without access logs do without them.
        from elf.agents.sources.advice import advice

        lines, rejected = self._misfits.judged
        (line, reason), shown = self._example, self._shown[0][:_EXAMPLE_BYTES].decode(errors="replace").strip()
        section, is_open = f"sources.{self._source}", self._shown[0] == line
        right = advice(format, line, reason, section, quotes=is_open)
        as_what = f"{rejected} of {lines} lines of {stream}, read as {format.name!r}"
        return f"{as_what}, are rejected: {right} (one of them: {shown!r}, reason: {reason})"
