"""Where in a job's file a mistake is, and whether a setting is what it should be: each in a sentence. Pure."""

from __future__ import annotations

import re
from typing import Any

from elf.agents.errors import JobSpecError, did_you_mean, nearest
from elf.agents.language.durations import parse_duration_ms

#: Names of applications.
APPLICATION = r"[a-z][a-z0-9_-]{0,62}"


class Places:
    """Finds where a key of a TOML text is written; tomllib does not tell."""

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, key: str, message: str, hint: str | None = None, section: str = "") -> JobSpecError:
        """Return a mistake in a setting, with its place."""
        line, column = self._find(key, section)
        return JobSpecError(message, line=line, column=column, hint=hint)

    def text(self, fields: dict[str, Any], key: str) -> str | None:
        """Return a text among fields, None if it is not there; raises JobSpecError where it is none."""
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, f"{key} is text in quotes")
        return value

    def duration_ms(self, key: str, value: object) -> int:
        """Return a duration as milliseconds; raises JobSpecError where it is none."""
        if not isinstance(value, str):
            raise self.error(key, f"{key} is a duration in quotes", f'{key} = "5 seconds"', section="options")
        if key == "lateness" and re.fullmatch(r"\s*0+\s*[a-z]*\s*", value):
            return 0
        try:
            return parse_duration_ms(value)
        except ValueError as error:
            raise self.error(key, f"{key}: {error}", section="options") from None

    def count(self, key: str, value: object, least: int, most: int) -> int:
        """Return a number within bounds; raises JobSpecError where it is none."""
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise self.error(key, f"{key} = {value!r} is not possible", f"{least} to {most}", section="options")

    def application(self, key: str, value: object) -> str:
        """Return the name of an application; raises JobSpecError where it is none."""
        if isinstance(value, str) and re.fullmatch(APPLICATION, value):
            return value
        hint = "1 to 63 of a-z 0-9 _ -, beginning with a letter"
        raise self.error(key, f"application = {value!r} is no name of an application", hint, section="options")

    def choice(self, key: str, value: object, known: tuple[str, ...]) -> str:
        """Return one of the words that are known; raises JobSpecError where it is none."""
        if isinstance(value, str) and value in known:
            return value
        close = did_you_mean(nearest(str(value), known)).lstrip("; ")
        hint = close or f"known: {', '.join(known)}"
        raise self.error(key, f"{key} = {value!r} is not known", hint, section="options")

    def refuse_unknown(self, table: dict[str, Any], known: tuple[str, ...], section: str) -> None:
        """Raise JobSpecError for a key of a table that is none of those known."""
        for key in table:
            if key not in known:
                where = f" in [{section}]" if section else ""
                close = did_you_mean(nearest(key, known)).lstrip("; ")
                hint = close or f"known: {', '.join(known)}"
                raise self.error(key, f"unknown key {key!r}{where}", hint, section=section)

    def _find(self, key: str, section: str) -> tuple[int | None, int | None]:
        current = ""
        wanted = re.compile(rf"\s*(?:{re.escape(section)}\s*\.\s*)?[\"']?({re.escape(key)})[\"']?\s*[=.\]]")
        for number, line in enumerate(self._text.splitlines(), start=1):
            header = re.match(r"\s*\[\s*([^\]]*?)\s*\]", line)
            if header is not None:
                current = header[1]
                if not section and current == key:
                    return number, line.index(key) + 1
                continue
            found = wanted.match(line)
            if found is not None and current in (section, ""):
                return number, found.start(1) + 1
        return None, None
