"""Directives of servers' configurations: their layout is what the server takes, however they are written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.agents.sources.layouts.directives import apache_directive, nginx_directive, without_quotes
from elf.agents.sources.layouts.nginx import read_nginx
from elf.agents.sources.layouts.program import compiled
from elf.agents.sources.layouts.twin import Twin
from tests.agents.sources.native.kernels import all_outputs, apart, built, same_apart

PIECES = st.lists(st.sampled_from(["$a", "${b}c", " ", "'", '"', "\\", "\t", ";", "#", "{", "}", "é", "x=", "\\x22"]))
GAPS = st.sampled_from([" ", "\n  ", "\t", " # it's; a 'comment'\n"])


def written(text: str, quote: str) -> str:
    """Write a text as a word of nginx's configurations."""
    if quote:
        return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote
    return "".join("\\" + each if each in "\\'\"" else each for each in text)


@given(st.lists(st.tuples(PIECES.map("".join), st.sampled_from("'\"")), min_size=1), st.data())
def test_a_log_format_is_its_words_together(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    expected = "".join(text for text, _ in pieces)
    words = [written(*piece) for piece in pieces]
    if data.draw(st.booleans()):
        words.insert(0, "$remote_addr")
        expected = "$remote_addr" + expected
    escape = data.draw(st.sampled_from(["", "default", "json", "none"]))
    head = ["log_format", "main", *([f"escape={escape}"] if escape else [])]
    text = "".join(word + data.draw(GAPS) for word in [*head, *words]) + ";"
    text = data.draw(st.sampled_from(["", "http {\n", "# log_format old 'x';\n", "gzip on; "])) + text
    text += data.draw(st.sampled_from(["", "\n", " access_log /a main;\n}\n"]))
    if expected:
        found = nginx_directive(text)
        assert found is not None and (found.text, found.escape) == (expected, escape or "default")
    else:
        with pytest.raises(ConfigError, match="this is no log_format"):
            nginx_directive(text)


@given(
    st.lists(st.sampled_from(["%h", "%{a b}i", " ", '"', "'", "$x", "#", "é"])).map(lambda each: "%t" + "".join(each))
)
def test_a_log_format_of_apache_is_one_word(layout: str) -> None:
    word = '"' + layout.replace("\\", "\\\\").replace('"', '\\"') + '"'
    for text in (
        f"LogFormat {word}",
        f"  # LogFormat {word} old\n\tlogformat {word} combined\n",
        f"<IfModule m>\nLogFormat \\\n{word} \\\n combined\n</IfModule>",
        f"CustomLog logs/a {word} env=!x",
        f'CustomLog "|/bin/rotate a%Y 5" {word}',
    ):
        assert apache_directive(text) == layout


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("'$a '\n  '\"$b\"';", '$a "$b"'),
        ('"$a" "$b"', '"$a" "$b"'),
        ('"%h \\"%r\\""', '%h "%r"'),
        (r"$a\t$b", "$a\t$b"),
        (r"%h \"%r\"", '%h "%r"'),
    ],
)
def test_a_text_alone_may_have_quotes(text: str, layout: str) -> None:
    assert without_quotes(text) == layout


VALUES = {
    "remote_addr": ("192.0.2.1", "2001:db8::1"),
    "remote_user": ("bob", "a b"),
    "status": ("200", "404"),
    "body_bytes_sent": ("0", "77"),
    "http_x_forwarded_for": ("192.0.2.7, 10.0.0.1", "unknown"),
    "upstream_response_time": ("0.1, 0.2 : 0.3", "0.001"),
    "upstream_status": ("502, 200", "200"),
    "request_time": ("0.25", "1"),
    "http_user_agent": ("curl/8", "Mozilla (X; Y)"),
    "upstream_cache_status": ("HIT",),
}
#: What is no text, of which JSON has quotes.
BARE = ("status", "body_bytes_sent", "upstream_response_time", "upstream_status", "request_time")


@given(st.data(), st.booleans())
def test_what_is_missing_where_nothing_is_written_for_it_is_null(data: st.DataObject, is_json: bool) -> None:
    names = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, unique=True))
    quotes = [data.draw(st.sampled_from(("", '"'))) if name in BARE else '"' for name in names]
    keys = [f'"{name}":' if is_json else "" for name in names]
    values = [data.draw(st.sampled_from(("", *VALUES[name]))) for name in names]

    def line(texts: list[str], time: str) -> str:
        parts = [key + quote + text + quote for key, quote, text in zip(keys, quotes, texts, strict=True)]
        return "{" + ",".join([f'"t":"{time}"', *parts]) + "}" if is_json else " ".join([time, *parts])

    layout = read_nginx(line([f"${name}" for name in names], "$time_iso8601"), "json")
    text = line(values, "2026-11-26T09:00:00Z").encode()
    programs, outputs = all_outputs([compiled(layout)])
    found = same_apart(programs, outputs, [text])
    assert not found.misfits
    spans = [text[begin:end].decode() if begin >= 0 else "" for ((begin, end),) in found.spans]
    columns = [field.column for field in layout.fields()]
    own = {"body_bytes_sent": "bytes", "http_user_agent": "user_agent"}
    assert [spans[columns.index(own.get(name, name))] for name in names] == values
    assert all(begin != end for span in found.spans for begin, end in span if begin >= 0)


@pytest.mark.parametrize("kernels", [built(), Twin()])
def test_between_quotes_nothing_is_no_misfit(kernels: Twin) -> None:
    text = '"$http_x_forwarded_for" "$request_time" "$http_referer" [$time_local] "$request_method $uri" $status'
    programs, outputs = all_outputs([compiled(read_nginx(text))])
    time = "[26/Nov/2026:09:00:00 +0000]"
    good = f'"" "" "" {time} "GET /" 200'
    # What is not alone between its quotes, or stands between spaces, may not be nothing.
    bad = [f'"" "" "" {time} " /" 200', f'"" "" "" {time} "GET /" ', f' "" "" {time} "GET /" 200']
    found = apart(kernels, programs, outputs, [each.encode() for each in (good, *bad)])
    assert len(found.times) == 1 and len(found.misfits) == 3


def test_json_of_a_log_format_is_read_as_json_is() -> None:
    text = '{"t":"$time_iso8601","a":"$http_user_agent","s":$status}'
    programs, outputs = all_outputs([compiled(read_nginx(text, "json"))])
    agent = 'a "b" \\ \x01 é'
    line = f'{{"t":"2026-11-26T09:00:00Z","a":{json.dumps(agent)},"s":200}}'.encode()
    ((begin, end),) = same_apart(programs, outputs, [line]).spans[1]
    assert json.loads(b'"' + line[begin:end] + b'"') == agent
