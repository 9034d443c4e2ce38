"""Signatures: what is signed holds, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import JobError, JobSpecError
from elf.agents.extensions.signed.job_file import signed_text
from elf.agents.extensions.signed.runners import Trust
from elf.agents.extensions.signed.signatures import is_signed, message_of, public_key, read_key, sign
from elf.agents.jobs.definition import load_definition
from elf.agents.language.own_functions import OwnFunction, fingerprint
from tests.agents.extensions.signed.signed_jobs import OTHER, SECRET, SECTION, TRUSTED, text_of

FUNCTION = OwnFunction(name="section", args=("STRING", "BIGINT"), returns="STRING", source=SECTION)
SIGNED = sign("shop", "sections", [FUNCTION], SECRET)[0]
ALTERED = [
    replace(SIGNED, name="sektion"),
    replace(SIGNED, args=("STRING", "INT")),
    replace(SIGNED, args=("STRING",)),
    replace(SIGNED, returns="DATE"),
    replace(SIGNED, strict=True),
    replace(SIGNED, source=SECTION + " "),
    replace(SIGNED, key=public_key(OTHER)),
    replace(SIGNED, signature=sign("shop", "sections", [FUNCTION], OTHER)[0].signature),
    replace(SIGNED, signature=SIGNED.signature[:-4]),
    replace(SIGNED, signature="no base64"),
    replace(SIGNED, key="AA=="),
    replace(SIGNED, key="", signature=""),
]


def test_a_signature_holds_for_its_creator_job_and_function() -> None:
    assert is_signed("shop", "sections", SIGNED)
    assert not is_signed("shop2", "sections", SIGNED)
    assert not is_signed("shop", "sections2", SIGNED)
    Trust(TRUSTED).check("shop", "sections", [SIGNED])


@pytest.mark.parametrize("altered", ALTERED, ids=range(len(ALTERED)))
def test_what_is_altered_is_refused_with_the_creators_name(altered: OwnFunction) -> None:
    with pytest.raises(JobSpecError, match="'shop' sends with job shop/sections"):
        Trust(TRUSTED).check("shop", "sections", [SIGNED, altered])


def test_who_is_not_listed_and_who_signs_with_another_key_is_refused() -> None:
    for trusted in ({}, {"other": TRUSTED["shop"]}):
        with pytest.raises(JobSpecError, match="its settings list no key of 'shop'"):
            Trust(trusted).check("shop", "sections", [SIGNED])
    theirs = sign("shop", "sections", [FUNCTION], OTHER)
    with pytest.raises(JobSpecError, match=f"signed with key {fingerprint(theirs[0].key)}"):
        Trust(TRUSTED).check("shop", "sections", theirs)
    with pytest.raises(JobError, match="is no public key"):
        Trust({"shop": "AAAA"})
    assert len(read_key(TRUSTED["shop"])) == 32


WORDS = st.text(max_size=12)


@given(
    st.lists(
        st.tuples(WORDS, WORDS, WORDS, st.lists(st.sampled_from(["INT", "DATE"]), max_size=3)), min_size=2, max_size=2
    )
)
def test_no_two_functions_are_signed_with_the_same_bytes(told: list[tuple[str, str, str, list[str]]]) -> None:
    one, other = (
        message_of(creator, job, OwnFunction(name="f", args=tuple(args), returns="INT", source=source))
        for creator, job, source, args in told
    )
    assert (one == other) == (told[0] == told[1])


def test_a_signed_file_says_what_the_file_says() -> None:
    plain = text_of("sections", SECTION + '# "quotes" and \\\n')
    text = signed_text(plain, SECRET)
    assert text.startswith(plain)
    definition, before = load_definition(text), load_definition(plain)
    assert replace(definition, functions=()) == replace(before, functions=())
    assert [replace(each, key="", signature="") for each in definition.functions] == list(before.functions)
    Trust(TRUSTED).check("shop", "sections", definition.functions)
    with pytest.raises(JobError, match="signed already"):
        signed_text(text, SECRET)
    with pytest.raises(JobError, match="no functions of its own to sign"):
        signed_text('name = "n"\nquery = "SELECT count(*) FROM clicks"', SECRET)


def test_a_file_beside_the_jobs_is_signed_with_it() -> None:
    text = text_of("sections", "").replace("source = ''''''", 'file = "section.py"')
    with pytest.raises(JobSpecError, match=r"is not signed, so its file .section.py. does not come"):
        load_definition(text)
    source = SECTION + "# \"quotes\", ''', \\ and \x7f\n"
    signed = signed_text(text, SECRET, read={"section.py": source}.__getitem__)
    assert load_definition(signed).functions[0].source == source
    Trust(TRUSTED).check("shop", "sections", load_definition(signed).functions)
