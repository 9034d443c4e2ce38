"""What the lines of a source are whose settings do not say: found out once, at its first lines (LINES section 4).

It never changes by itself: a change would change the columns under running jobs. Until a format is found the source
reads nothing, so that no line is taken for what it is not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from elf.agents.errors import ConfigError
from elf.agents.intake.decoder import Decoder, Recognised

log = logging.getLogger(__name__)
#: Lines are looked at again after so long, and after twice as long each time that they were nothing known.
LOOK_MS, LOOK_MS_MAX = 1_000, 300_000
#: So many lines are enough to tell by; fewer are if no more came for so long.
LINES_ENOUGH, FEW_MS = 20, 10_000


class Look(NamedTuple):
    """What a look at a source's lines has shown.

    Attributes:
        decoder: what reads them; None as long as that is not known.
        trouble: why it is not known; None also if there are no lines.
    """

    decoder: Decoder | None
    trouble: str | None


class Recognition:
    """Finds out what the lines of one source are.

    Args:
        source: its name.
        samples: gives some of its whole lines, those first that tell the most; empty ones while there are none.
        make: what reads lines that were recognised; raises ConfigError.
        time: of objects, the field with the event time; None if nobody said.
        up_ms: a clock that nobody sets.
    """

    def __init__(
        self,
        source: str,
        samples: Callable[[], Sequence[bytes]],
        make: Callable[[Recognised], Decoder],
        time: str | None,
        up_ms: Callable[[], int],
    ) -> None:
        self._source = source
        self._samples = samples
        self._make = make
        self._time = time
        self._up_ms = up_ms
        #: What was found, for the checkpoint.
        self.recognised: Recognised | None = None
        self._last = Look(None, None)
        self._next_ms: int | None = None
        self._pause_ms = LOOK_MS
        #: The lines of the last look, and since when they are all there is.
        self._lines: Sequence[bytes] = ()
        self._since_ms = 0

    def recall(self, recognised: Recognised | None) -> Decoder | None:
        """Take up what was found before; None: nothing was, or the settings said what lines are.

        Raises:
            ConfigError: that cannot be read any more.
        """
        self.recognised = recognised
        return None if recognised is None else self._make(recognised)

    def look(self) -> Look:
        """Look at the lines there are, unless that was only just done; less and less often if they are nothing known.

        Some 0.2 s of a core where there are lines.
        """
        now_ms = self._up_ms()
        if self._next_ms is None or now_ms >= self._next_ms:
            self._last = self._looked(now_ms)
            self._next_ms = now_ms + self._pause_ms
        return self._last

    def _looked(self, now_ms: int) -> Look:
        try:
            lines = self._samples()
        except OSError as error:
            return Look(None, f"{error.filename}: {error.strerror}")
        if lines != self._lines:
            self._lines = lines
            self._since_ms = now_ms
        age_ms = now_ms - self._since_ms
        count = sum(lines.count(b"\n") for lines in self._lines[:1])
        if not count:
            return Look(None, None)
        if count < LINES_ENOUGH and age_ms < FEW_MS:
            return Look(None, f"its format is open: {count} lines are too few to tell")
        look = self._recognised(self._lines)
        if look.decoder is None:
            self._pause_ms = min(2 * self._pause_ms, LOOK_MS_MAX)
        return look

    def _recognised(self, samples: Sequence[bytes]) -> Look:
        # Not loaded by an agent whose sources all say what they are.
        from elf.agents.sources.recognition import NO_ZONE, fitting

        found = recognised(samples, self._time)
        if isinstance(found, str):
            return Look(None, f"its format is open: {found}")
        try:
            decoder = self._make(found)
        except ConfigError as error:
            return Look(None, str(error))
        if not any(fitting(decoder.format, lines).is_good for lines in samples):
            return Look(None, f"its format is open: as {decoder.format.name} {NO_ZONE}")
        self.recognised = found
        log.info("source %s: its lines are read as %s from now on", self._source, ", ".join(found.formats))
        return Look(decoder, None)


def recognised(samples: Sequence[bytes], time: str | None) -> Recognised | str:
    """Say what lines are, or why that cannot be told: they are nothing known, or could be two things.

    Args:
        samples: some lines, those first that tell the most; at least one.
        time: of objects, the field with the event time; None if nobody said.
    """
    # Not loaded by an agent whose sources all say what they are.
    from elf.agents.sources.recognition import recognise

    looks = [recognise(lines, time) for lines in samples]
    found = next((look.format for look in looks if look.format is not None), None)
    if found is not None:
        return Recognised(found.names, found.time or time or "")
    first = looks[0]
    more = "write which as its format" if first.candidates else "`elf sample FILE` shows more"
    return f"{first.why_open}; {more}"
