"""Functions of text. Positions and lengths count characters (code points), as in Spark."""

from __future__ import annotations

import polars as pl

from elf.agents.language.coercion import cast
from elf.agents.language.functions.registry import MANY, Call, function, refuse, special
from elf.agents.language.patterns import constant_text
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

STRING, INT, BOOLEAN = SqlType.STRING, SqlType.INT, SqlType.BOOLEAN
#: lpad and rpad make at most this many characters.
PAD_MAX = 10_000


@function("lower", "lcase", takes=[STRING], gives=STRING)
def lower(text: pl.Expr) -> pl.Expr:
    """In small letters."""
    return text.str.to_lowercase()


@function("upper", "ucase", takes=[STRING], gives=STRING)
def upper(text: pl.Expr) -> pl.Expr:
    """In capital letters."""
    return text.str.to_uppercase()


@function("length", "len", "char_length", "character_length", takes=[STRING], gives=INT)
def length(text: pl.Expr) -> pl.Expr:
    """How many characters."""
    return text.str.len_chars().cast(pl.Int32)


@function("trim", takes=[STRING], gives=STRING)
def trim(text: pl.Expr) -> pl.Expr:
    """Without spaces (only U+0020) at both ends."""
    return text.str.strip_chars(" ")


@function("ltrim", takes=[STRING], gives=STRING)
def ltrim(text: pl.Expr) -> pl.Expr:
    """Without spaces at the beginning."""
    return text.str.strip_chars_start(" ")


@function("rtrim", takes=[STRING], gives=STRING)
def rtrim(text: pl.Expr) -> pl.Expr:
    """Without spaces at the end."""
    return text.str.strip_chars_end(" ")


@function("reverse", takes=[STRING], gives=STRING)
def reverse(text: pl.Expr) -> pl.Expr:
    """The characters in reverse order; Polars' own `reverse` would keep combined characters together."""
    return text.str.split("").list.reverse().list.join("")


@function("startswith", takes=[STRING, STRING], gives=BOOLEAN)
def startswith(text: pl.Expr, prefix: pl.Expr) -> pl.Expr:
    """Whether it begins with the second text."""
    return text.str.starts_with(prefix)


@function("endswith", takes=[STRING, STRING], gives=BOOLEAN)
def endswith(text: pl.Expr, suffix: pl.Expr) -> pl.Expr:
    """Whether it ends with the second text."""
    return text.str.ends_with(suffix)


@function("contains", takes=[STRING, STRING], gives=BOOLEAN)
def contains(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    """Whether it contains the second text."""
    return text.str.contains(part, literal=True)


@special("substr", "substring", least=2, most=3)
def substring(call: Call) -> Value:
    """Characters from a position (1-based, negative from the end), at most so many."""
    text = call.take(0, STRING).expr
    constants = [value.constant for value in call.arguments[1:]]
    positions = [constant for constant in constants if type(constant) is int]
    if len(positions) == len(constants) and positions[0] > 0:
        taken = max(0, positions[1]) if len(positions) == 2 else None
        return call.value(text.str.slice(positions[0] - 1, taken), STRING)
    position = call.take(1, INT).expr.cast(pl.Int64)
    size = text.str.len_chars().cast(pl.Int64)
    start = pl.when(position > 0).then(position - 1).when(position < 0).then(size + position).otherwise(0 * position)
    count = call.take(2, INT).expr.cast(pl.Int64) if len(call.arguments) == 3 else pl.lit(2**31 - 1, dtype=pl.Int64)
    end = start + count
    begin = pl.max_horizontal(start, pl.lit(0, dtype=pl.Int64))
    length = pl.max_horizontal(end - begin, pl.lit(0, dtype=pl.Int64))
    known = text.is_not_null() & start.is_not_null() & end.is_not_null()
    return call.value(pl.when(known).then(text.str.slice(begin, length)), STRING)


@function("left", takes=[STRING, INT], gives=STRING)
def left(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    """The first characters."""
    taken = pl.when(count > 0).then(count).otherwise(0)
    return pl.when(count.is_not_null()).then(text.str.slice(pl.lit(0), taken))


@function("right", takes=[STRING, INT], gives=STRING)
def right(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    """The last characters."""
    size = text.str.len_chars().cast(pl.Int64)
    start = pl.max_horizontal(size - count.cast(pl.Int64), pl.lit(0, dtype=pl.Int64))
    whole = pl.when(count > 0).then(text.str.slice(start)).otherwise(text.str.slice(0, 0))
    return pl.when(count.is_not_null() & text.is_not_null()).then(whole)


@function("instr", takes=[STRING, STRING], gives=INT)
def instr(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    """Where the second text first occurs, 1-based; 0 if it does not."""
    # Polars finds bytes; the characters before them are those of the bytes cut off there.
    offset = text.str.find(part, literal=True)
    before = text.cast(pl.Binary).bin.head(offset).cast(pl.String).str.len_chars()
    found = pl.when(offset.is_null()).then(0).otherwise(before.cast(pl.Int32) + 1)
    return pl.when(text.is_not_null() & part.is_not_null()).then(found).cast(pl.Int32)


@special("locate", "position", least=2, most=3)
def locate(call: Call) -> Value:
    """Where the first text occurs in the second, from a position on; 0 if it does not."""
    part, text = call.take(0, STRING).expr, call.take(1, STRING).expr
    start = call.constant_int(2, "the position") if len(call.arguments) == 3 else 1
    if start is None or start < 1:
        known = text.is_not_null() & part.is_not_null()
        zero = pl.lit(0, dtype=pl.Int32)
        return call.value(zero if start is None else pl.when(known).then(zero), INT)
    found = instr(text.str.slice(start - 1), part)
    nothing = (part == "") & text.is_not_null()
    place = pl.when(nothing).then(1).when(found > 0).then(found + (start - 1)).otherwise(found)
    return call.value(place.cast(pl.Int32), INT)


@special("concat", least=1, most=MANY)
def concat(call: Call) -> Value:
    """All texts one after the other; NULL if any is."""
    return call.value(pl.concat_str([cast(value, STRING).expr for value in call.arguments]), STRING)


@special("concat_ws", least=2, most=MANY)
def concat_ws(call: Call) -> Value:
    """The texts that are not NULL, with a separator in between."""
    separator = constant_text(call.arguments[0], "the separator of concat_ws")
    parts = [call.take(index, STRING).expr for index in range(1, len(call.arguments))]
    if separator is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    return call.value(pl.concat_str(parts, separator=separator, ignore_nulls=True), STRING)


@special("lpad", "rpad", least=2, most=3)
def pad(call: Call) -> Value:
    """Filled up, or cut, to a length."""
    text, count = call.take(0, STRING).expr, call.constant_int(1, "the length")
    fill = constant_text(call.arguments[2], "the filling") if len(call.arguments) == 3 else " "
    if count is None or fill is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    if count > PAD_MAX:
        raise call.refused(f"{call.name}() makes at most {PAD_MAX} characters")
    count = max(0, count)
    cut = text.str.slice(0, count)
    missing = pl.lit(count) - cut.str.len_chars().cast(pl.Int64)
    filling = pl.lit((fill * count)[:count]).str.slice(pl.lit(0), missing)
    pieces = [filling, cut] if call.name.lower() == "lpad" else [cut, filling]
    return call.value(pl.concat_str(pieces), STRING)


@special("replace", least=2, most=3)
def replace(call: Call) -> Value:
    """Every occurrence of the second text replaced by the third."""
    text = call.take(0, STRING).expr
    search = constant_text(call.arguments[1], "the text to replace")
    by = constant_text(call.arguments[2], "the replacement") if len(call.arguments) == 3 else ""
    if search is None or by is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    return call.value(text.str.replace_all(search, by, literal=True) if search else text, STRING)


@special("substring_index", least=3)
def substring_index(call: Call) -> Value:
    """What stands before the n-th delimiter, or after it counted from the end."""
    text, delimiter = call.take(0, STRING).expr, constant_text(call.arguments[1], "the delimiter")
    count = call.constant_int(2, "the count")
    if delimiter is None or count is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    if any(delimiter.startswith(delimiter[cut:]) for cut in range(1, len(delimiter))):
        raise call.refused(f"the delimiter {delimiter!r} can overlap itself", "use one that cannot")
    if not delimiter or count == 0:
        return call.value(text.str.slice(0, 0), STRING)
    parts = text.str.split(delimiter)
    chosen = parts.list.head(count) if count > 0 else parts.list.tail(-count)
    return call.value(chosen.list.join(delimiter), STRING)


@special("split_part", least=3)
def split_part(call: Call) -> Value:
    """The n-th part between delimiters, from the end if negative; empty if there are fewer."""
    text, delimiter = call.take(0, STRING).expr, constant_text(call.arguments[1], "the delimiter")
    index = call.constant_int(2, "the part's number")
    if delimiter is None or index is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    if index == 0:
        raise call.refused("parts are numbered from 1, or from -1 backwards")
    if not delimiter:
        return call.value(text if index in (1, -1) else text.str.slice(0, 0), STRING)
    part = text.str.split(delimiter).list.get(index - 1 if index > 0 else index, null_on_oob=True)
    return call.value(pl.when(text.is_not_null()).then(part.fill_null("")), STRING)


refuse("hashing has no vectorised form here", "md5", "sha", "sha1", "sha2", "crc32", "hash", "xxhash64")
