"""Checks configuration and job files and points at each mistake: file:line:column, what is wrong, what would be right.

All mistakes of a configuration are reported, not only the first. The settings themselves, and the relations inside a
section, are stated in `elf.agents.settings.config`; relations between sections, and names the configuration refers to,
here.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from elf.agents.errors import ConfigError, ElfError, JobError, JobSpecError, did_you_mean, nearest
from elf.agents.extensions.signed.job_file import beside
from elf.agents.jobs.definition import Definition, check_query, load_definition, query_place
from elf.agents.jobs.intervals import check_beside, check_pace
from elf.agents.jobs.plan import compile_job
from elf.agents.language.query import columns_read
from elf.agents.language.types import SqlType
from elf.agents.settings.config import AUTO, AgentConfig, SourceConfig, split_address
from elf.agents.settings.credentials import misplaced, with_credentials
from elf.agents.sources.format import Format, make_format
from elf.agents.sources.privacy.redaction import masked_without_text, unknown_columns
from elf.agents.sources.times.zones import named_zone
from elf.agents.toml.places import Place, Places, find_places
from elf.agents.toml.text import TomlError, parse_toml

FILE_BYTES_MAX = 1 << 20
LOG_LEVELS = ("debug", "info", "warning", "error")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
#: Every refusal of a type names it.
_TYPE_NAME = re.compile("|".join(rf"\b{kind.value}\b" for kind in SqlType))
_NAMED_SETTING = re.compile(r"(?:\w+\.)?(\w+) = ")
_SECTIONS = {field.name: field.type for field in msgspec.structs.fields(AgentConfig) if field.name != "sources"}
#: Words that only a job file has at its top level.
_JOB_WORDS = {"query", "creator", "source", "options", "columns", "signed"}
#: What looks like a key or a table in a text that is not TOML.
_WORD = re.compile(r"^[ \t]*\[?[ \t]*(\w+)[ \t]*[=\].]", re.MULTILINE)

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in a file."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a file turned out to be, and what is wrong with it."""

    kind: Literal["configuration", "job"]
    findings: tuple[Finding, ...]


def load_config(path: str | Path) -> AgentConfig:
    """Read an agent's configuration file.

    Raises:
        ConfigError: its text has one line `FILE:LINE:COLUMN: ...` per mistake; or it names credentials and there are
            none.
    """
    return with_credentials(read_config(path), os.environ)


def read_config(path: str | Path) -> AgentConfig:
    """Read an agent's configuration file for somebody else than its service: credentials stay references.

    Raises:
        ConfigError: its text has one line `FILE:LINE:COLUMN: ...` per mistake.
    """
    text = _read(path)
    config, findings = check_config(text, str(path))
    if config is None:
        raise ConfigError("\n".join(map(str, findings)))
    return config


def check_file(path: str | Path) -> Checked:
    """Check a configuration or job file; `.sql`, or what stands at the top level, tells a job.

    Raises:
        JobError: a `.sql` file cannot be read at all.
        ConfigError: another file cannot be read at all: nothing tells that it was to be a job.
    """
    file = str(path)
    is_sql = file.endswith(".sql")
    text = _read(path, JobError if is_sql else ConfigError)
    if is_sql or _is_job(text):
        return Checked("job", check_job(text, file))
    return Checked("configuration", check_config(text, file)[1])


def check_config(text: str, file: str) -> tuple[AgentConfig | None, tuple[Finding, ...]]:
    """Check a configuration's text; returns it if nothing is wrong, else all findings by place."""
    try:
        data = parse_toml(text)
    except TomlError as error:
        return None, (_syntax_finding(error, file),)
    check = _Check(file, find_places(text))
    config = check.struct(AgentConfig, data, ())
    if config is not None:
        check.relations(config)
    if check.findings:
        return None, tuple(sorted(check.findings, key=lambda f: (f.line, f.column)))
    return config, ()


def check_job(text: str, file: str, *, alone: bool = False) -> tuple[Finding, ...]:
    """Check a job's text: its form, its SQL, and the types of the columns it declares.

    Types that only the source knows are left for publishing; what is wrong whatever they are is found here.

    Args:
        text: the file's content.
        file: its name; files of functions are beside it.
        alone: there are no such files, as for an agent.
    """
    try:
        query = text if file.endswith(".sql") else parse_toml(text).get("query")
    except TomlError as error:
        return (_syntax_finding(error, file),)
    try:
        if isinstance(query, str):
            check_query(query)
    except JobSpecError as error:
        return (query_finding(error, text, file),)
    try:
        read = None if alone else beside(Path(file))
        definition = load_definition(text, filename=Path(file).name, read=read)
    except JobSpecError as error:
        return (Finding(file, error.line or 1, error.column or 1, _with_hint(error)),)
    except JobError as error:
        return (Finding(file, 1, 1, str(error)),)
    mistake = _mistake_for_all_types(definition)
    return () if mistake is None else (query_finding(mistake, text, file),)


def _mistake_for_all_types(definition: Definition) -> JobSpecError | None:
    """Compile with every type in turn for the columns of unknown type, and find what is wrong whatever they are.

    Where none fits all columns, an error that they all share is the job's own, and one that is not about types at all.
    """
    if definition.joined is not None:
        return None
    from elf.agents.language.function_calls import check_calls

    try:
        check_calls(definition.query, {each.name for each in definition.functions})
        check_beside(definition)
        check_pace(definition)
    except JobSpecError as error:
        return error
    mistakes: dict[str, JobSpecError] = {}
    for guess in SqlType:
        try:
            compile_job(definition, dict.fromkeys(columns_read(definition.query), guess) | definition.types)
        except JobSpecError as error:
            mistakes[str(error)] = error
        else:
            return None
    of_its_own = [error for error in mistakes.values() if not _TYPE_NAME.search(error.message)]
    if of_its_own:
        return min(of_its_own, key=lambda error: (error.line or 0, error.column or 0))
    return mistakes.popitem()[1] if len(mistakes) == 1 else None


def query_finding(error: JobSpecError, text: str, file: str) -> Finding:
    """Place an error in a job's file: at the setting that it is about, or inside the query, whose lines it counts."""
    if error.setting is not None and not file.endswith(".sql"):
        place = find_places(text).key(tuple(error.setting.split(".")))
        return Finding(file, place.line, place.column, _with_hint(error))
    lines, columns = (0, 0) if file.endswith(".sql") else query_place(text)
    line, column = error.line or 1, error.column or 1
    return Finding(file, line + lines, column + (columns if line == 1 else 0), _with_hint(error))


class _Check:
    """Collects the findings of one configuration."""

    def __init__(self, file: str, places: Places) -> None:
        self.file = file
        self.places = places
        self.findings: list[Finding] = []

    def say(self, place: Place, message: str) -> None:
        self.findings.append(Finding(self.file, place.line, place.column, message))

    def struct(self, kind: type[Any], data: Any, path: Keys) -> Any:
        """Build a record of `kind`, or return None after saying why not."""
        if not isinstance(data, dict):
            self.say(self.places.value(path), f"{'.'.join(path)} must be a table, [{'.'.join(path)}]")
            return None
        before = len(self.findings)
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        for key in data.keys() - fields.keys():
            self.say(self.places.key((*path, key)), _unknown(key, path, fields))
        values = {key: self._value(fields[key], data[key], (*path, key)) for key in data if key in fields}
        if len(self.findings) > before:
            return None
        try:
            return kind(**values)
        except ConfigError as error:
            self.say(self.places.value((*path, *_setting_named(str(error), data))), str(error))
            return None

    def _value(self, kind: Any, data: Any, path: Keys) -> Any:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(kind, data, path)
        if get_origin(kind) is dict and isinstance(data, dict):
            inner = get_args(kind)[1]
            return {key: self._value(inner, value, (*path, key)) for key, value in data.items()}
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            self.say(self.places.value(path), f"{'.'.join(path)}: {_plain(str(error))}")
            return None

    def relations(self, config: AgentConfig) -> None:
        """Check what reaches over one section: addresses, source names, formats and column types."""
        if config.overlay.advertise:
            self._call(("overlay", "advertise"), split_address, config.overlay.advertise)
        for index, address in enumerate(config.overlay.join):
            self._call(("overlay", "join", str(index)), split_address, address)
        overlay, api = split_address(config.overlay.bind), split_address(config.api.bind)
        if overlay == api and api[1] != 0:
            place = self.places.value(("api", "bind"))
            self.say(place, f"api.bind and overlay.bind are both {config.api.bind}; each needs a port of its own")
        for path, message in misplaced(config):
            self.say(self.places.value(path), message)
        self._word(("agent", "log_level"), config.agent.log_level, LOG_LEVELS)
        for section, key, value in (
            ("archive", "rows_max", config.archive.rows_max),
            ("agent", "checkpoint_ms", config.agent.checkpoint_ms),
            ("overlay", "k", config.overlay.k),
            ("api", "request_bytes_max", config.api.request_bytes_max),
        ):
            if value < 1:
                self.say(self.places.value((section, key)), f"{section}.{key} = {value}: use 1 or more")
        for name, source in config.sources.items():
            self._source(name, source)

    def _source(self, name: str, source: SourceConfig) -> None:
        path = ("sources", name)
        if not _NAME.fullmatch(name):
            self.say(
                self.places.key(path),
                f"{name!r} cannot be a source; use up to 63 of a-z 0-9 . _ - and begin with a letter or digit",
            )
        if source.time_zone:
            self._call((*path, "time_zone"), named_zone, source.time_zone)
        with contextlib.suppress(ConfigError, ValueError):
            columns = None if source.reads_as == AUTO else self._columns_of_format(path, source)
            self._masked(path, columns, source)
            for setting, index, column in unknown_columns(columns, source.privacy):
                hint = did_you_mean(nearest(column, columns or ())) or f"; it has {', '.join(columns or ())}"
                place = self.places.value((*path, "privacy", setting, str(index)))
                self.say(place, f"{'.'.join(path)} has no column {column!r}{hint}")
        for column, kind in source.columns.items():
            self._call((*path, "columns", column), SqlType.parse, kind)

    def _columns_of_format(self, path: Keys, source: SourceConfig) -> Mapping[str, SqlType] | None:
        zone = named_zone(source.time_zone) if source.time_zone else None

        def make(_: str = "") -> Format:
            return make_format(source.reads_as, time=source.time_field, zone=zone, unwrap=source.unwrap)

        self._call((*path, "format"), make, "")
        return make().columns

    def _masked(self, path: Keys, columns: Mapping[str, SqlType] | None, source: SourceConfig) -> None:
        if columns is None:
            columns = {name: SqlType.parse(kind) for name, kind in source.columns.items()}
        for index, column, kind in masked_without_text(columns, source.privacy):
            place = self.places.value((*path, "privacy", "mask", str(index)))
            said = f"{'.'.join(path)}.privacy: mask = {column!r}: it is {kind.ddl}, and '***' is text"
            self.say(place, f"{said}; put it into drop, which makes it null")

    def _word(self, path: Keys, word: str, known: tuple[str, ...]) -> None:
        if word not in known:
            hint = did_you_mean(nearest(word, known)) or f"; use one of {', '.join(known)}"
            self.say(self.places.value(path), f"{'.'.join(path)} = {word!r} is unknown{hint}")

    def _call(self, path: Keys, reader: Callable[[str], object], value: str) -> None:
        """Let the one who will read the value judge it."""
        try:
            reader(value)
        except (ConfigError, JobSpecError, ValueError) as error:
            self.say(self.places.value(path), f"{'.'.join(path)}: {error}")


def _setting_named(message: str, data: Mapping[str, Any]) -> Keys:
    """Find which of a section's settings a message is about: it names the setting or quotes the value."""
    named = _NAMED_SETTING.match(message)
    if named and named[1] in data:
        return (named[1],)
    return next(((key,) for key, value in data.items() if message.startswith(repr(value))), ())


def _with_hint(error: JobSpecError) -> str:
    return error.message + (f" ({error.hint})" if error.hint else "")


def _unknown(key: str, path: Keys, fields: Mapping[str, Any]) -> str:
    """Say what an unknown key should have been: a near word here, or a section that has it."""
    where = f"[{'.'.join(path)}]" if path else "the configuration"
    if near := nearest(key, fields):
        return f"{where} has no setting {key!r}{did_you_mean(near)}"
    homes = [f"[{name}]" for name, kind in _SECTIONS.items() if key in kind.__struct_fields__]
    if homes:
        return f"{where} has no setting {key!r}; it belongs in {' or '.join(homes)}"
    return f"{where} has no setting {key!r}; it has {', '.join(fields)}"


def _plain(message: str) -> str:
    """Reword msgspec's `Expected ..., got ...` for people who write TOML."""
    message = message.split(" - at `$")[0].replace("`", "")
    for python, toml in (("str", "text in quotes"), ("int", "a whole number"), ("bool", "true or false")):
        message = re.sub(rf"\b{python}\b", toml, message)
    return message[:1].lower() + message[1:]


def _syntax_finding(error: TomlError, file: str) -> Finding:
    return Finding(file, error.line, error.column, f"not TOML: {error.message}")


def _is_job(text: str) -> bool:
    try:
        words = set(parse_toml(text))
    except TomlError:
        words = set(_WORD.findall(text))
    return "query" in words or (bool(words & _JOB_WORDS) and not words & {*_SECTIONS, "sources"})


def _read(path: str | Path, wrong: type[ElfError] = ConfigError) -> str:
    file = Path(path)
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise wrong(f"{path}: larger than {FILE_BYTES_MAX} bytes; this is no configuration or job file")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise wrong(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise wrong(f"{path}: not UTF-8 text (byte {error.start})") from None
