"""Whatever a key or a text is, it reads back as it was."""

import tomllib

from hypothesis import example, given
from hypothesis import strategies as st

from elf.agents.toml.literals import key, quoted

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, texts)
@example("", "\x7f\x00\\\"'\r\n")
@example("a.b", "'''")
def test_reads_back(name: str, text: str) -> None:
    assert tomllib.loads(f"{key(name)} = {quoted(text)}") == {name: text}


def test_a_plain_key_is_written_plainly() -> None:
    assert key("http_user-agent") == "http_user-agent"
