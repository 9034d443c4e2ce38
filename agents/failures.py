"""What code that was given some data may fail with, whatever the data."""

from __future__ import annotations

import polars as pl

#: A panic of Polars does not derive from Exception, and is the fault of one piece of work like all else.
FAILURES = (Exception, pl.exceptions.PanicException)
