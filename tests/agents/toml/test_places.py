"""Places of keys and values, in every way TOML lets one write them."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.toml.places import Place, find_places

TEXT = """\
# a comment with = and [
top = 1
"quoted key" = 'x'
a.b = [1, # one
  "two]", { c = 3 }]
when = 1979-05-27 07:32:00Z

[table]  # here
long = QQQ
[not.a.table]
x = "y" \\"
QQQ
raw = '''it's = ''''

[table.sub."web.1"]
deep = { e = { f = "g" }, h = [] }

[[list]]
n = 1
[[list]]
n = 2
""".replace("QQQ", '"' * 3)


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("top", (2, 1), (2, 7)),
        ("quoted key", (3, 1), (3, 16)),
        ("a", (4, 1), (4, 1)),
        ("a/b", (4, 1), (4, 7)),
        ("a/b/0", (4, 1), (4, 8)),
        ("a/b/1", (4, 1), (5, 3)),
        ("a/b/2/c", (5, 13), (5, 17)),
        ("when", (6, 1), (6, 8)),
        ("table", (8, 2), (8, 2)),
        ("table/long", (9, 1), (9, 8)),
        ("table/raw", (13, 1), (13, 7)),
        ("table/sub/web.1", (15, 2), (15, 2)),
        ("table/sub/web.1/deep/e/f", (16, 16), (16, 20)),
        ("table/sub/web.1/deep/h", (16, 27), (16, 31)),
        ("list/0/n", (19, 1), (19, 5)),
        ("list/1/n", (21, 1), (21, 5)),
        ("nowhere", (1, 1), (1, 1)),
        ("table/nowhere", (8, 2), (8, 2)),
    ],
)
def test_places(path: str, key: tuple[int, int], value: tuple[int, int]) -> None:
    assert tomllib.loads(TEXT)["table"]["raw"] == "it's = '"
    places = find_places(TEXT)
    parts = tuple(path.split("/"))
    assert places.key(parts) == Place(*key)
    assert places.value(parts) == Place(*value)


@given(st.text(st.sampled_from("ab.=[]{}\"'\n #,\\1 "), max_size=60))
def test_every_key_of_any_valid_text_is_found(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    places = find_places(text)
    for key in data:
        assert (key,) in places.keys or "\\" in text
