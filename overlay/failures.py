"""What the runtime may fail with when the overlay calls it."""

from __future__ import annotations

import asyncio

#: Not failures: this task, or the process, is to end. All else is one, also what derives from BaseException only, as
#: panics of compiled code do: whoever let it pass would never hear from that call again.
ENDINGS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
