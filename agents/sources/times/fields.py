"""Names of fields that may hold the event time, in formats whose lines name their fields."""

from __future__ import annotations

#: The name that is meant if nobody says one: then it may be any of the others, too.
TIME_FIELD = "ts"
#: The likeliest first.
TIME_FIELDS = (
    *(TIME_FIELD, "time", "timestamp", "@timestamp", "datetime", "date", "time_iso8601", "time_local", "msec"),
    *("StartUTC", "EdgeStartTimestamp"),
)


def time_fields(name: str) -> tuple[str, ...]:
    """Return the fields of which the first that is there holds the event time, by the name that somebody gave."""
    return TIME_FIELDS if name == TIME_FIELD else (name,)
