"""Whose functions may run on Spark: those of creators whom the user names, as they have signed them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from elf.agents.errors import JobError, JobSpecError
from elf.agents.extensions.signed import runners
from elf.agents.extensions.signed.signatures import public_key
from elf.agents.jobs.definition import Definition, load_definition
from elf.agents.language.own_functions import fingerprint
from elf.client.results import Function
from elf.offline.own import NONE, Key, Trusted, parse_trusted
from elf.offline.session import OfflineError
from elf.offline.verify.run import run_verify
from tests.agents.extensions.signed.signed_jobs import COLUMNS, OTHER, SECRET, signed, text_of

MINE, ANOTHER = public_key(SECRET), public_key(OTHER)
SIGNED = load_definition(signed(text_of("sections")))


def told(definition: Definition) -> list[Function]:
    """Functions as a master tells of them."""
    return msgspec.convert(msgspec.to_builtins(definition.functions), list[Function])


class Client:
    """Tells of one job and its versions, and knows of windows of the newest."""

    def __init__(self, *versions: Definition) -> None:
        newest = msgspec.to_builtins(versions[-1])
        history = [
            {"version": at, "what": "update", "made_ms": at, "query": each.query, "columns": COLUMNS}
            | {"functions": msgspec.to_builtins(each.functions)}
            for at, each in enumerate(versions, 1)
        ]
        self._job = newest | {"columns": COLUMNS, "versions": history, "interval_ms": 1_000}

    def job(self, name: str) -> dict[str, Any]:
        return self._job

    def query(self, name: str, *, window: str, limit: int | None = None) -> dict[str, Any]:
        return {
            "job": "shop/sections",
            "window": {"start_ms": 0, "end_ms": 60_000},
            "version": int(window),
            "columns": [],
            "rows": [],
            "completeness": {"status": "final"},
        }


def test_what_its_creator_has_signed_may_run() -> None:
    own = Trusted([("shop", MINE)]).admit("shop", "sections", told(SIGNED))
    assert (own.job, own.functions, own.find("section"), own.find("sections")) == (
        "shop/sections", SIGNED.functions, 0, None
    )  # fmt: skip
    # Once the creator's key was changed, versions are signed with this one and with that one.
    both = Trusted([("shop", ANOTHER), ("shop", MINE)])
    assert both.admit("shop", "sections", SIGNED.functions) == own
    anew = load_definition(signed(text_of("sections"), OTHER)).functions
    assert both.admit("shop", "sections", anew).functions == anew
    assert Trusted().admit("shop", "sections", []) is NONE


UNSIGNED = load_definition(text_of("sections"))
ALTERED = load_definition(signed(text_of("sections")).replace("found[1]", "found[0]", 2))
KEYS = f"section is signed with key {fingerprint(MINE)}, and 'shop' has key {fingerprint(ANOTHER)}"
REFUSED: dict[str, tuple[list[Key], Definition, str]] = {
    "nobody": ([], SIGNED, "give its public key, as agents' settings list it, with --trust shop=PUBLICKEY"),
    "somebody else": ([("eve", MINE)], SIGNED, "give its public key, as agents' .* with --trust shop=PUBLICKEY"),
    "another key": ([("shop", ANOTHER)], SIGNED, f"{KEYS}; if both are, give --trust shop=PUBLICKEY for each of them"),
    "altered": ([("shop", MINE)], ALTERED, "the signature of section is wrong: it was altered, or is of another job"),
    "not signed": ([("shop", MINE)], UNSIGNED, "section is not signed"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_all_else_is_refused_by_its_creators_name_before_spark_starts(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elf.offline.session.check_pyspark", lambda: pytest.fail("Spark begins"))
    keys, definition, why = REFUSED[what]
    begin = r"^Spark does not run the functions \(section\) that 'shop' sends with job shop/sections: "
    with pytest.raises(JobSpecError, match=f"{begin}{why}$"):
        run_verify(Client(definition), "sections", ["1"], trusted=keys)
    with pytest.raises(JobSpecError, match=f"{begin}{why}$"):
        run_verify(
            Client(definition, load_definition(text_of("sections").partition("[functions")[0])),
            "sections",
            ["1"],
            trusted=keys,
        )


def test_where_nothing_can_be_confined_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "unsupported", lambda: "this kernel has no seccomp filters")
    with pytest.raises(JobSpecError, match=r"sends with job shop/sections: this kernel has no seccomp filters$"):
        run_verify(Client(SIGNED), "sections", ["1"], trusted=[("shop", MINE)])


@pytest.mark.parametrize(
    ("functions", "why"),
    [
        ([Function("section", MINE)], "the agent's description of shop/sections's functions is incomplete: "),
        ([*told(SIGNED), *told(SIGNED)], "two functions of the job are named section"),
        (told(load_definition(signed(text_of("sections").replace("section]", "lower]")))), "lower"),
    ],
)
def test_what_no_agent_would_run_is_refused(functions: list[Function], why: str) -> None:
    with pytest.raises(JobError, match=why):
        Trusted([("shop", MINE)]).admit("shop", "sections", functions)


def test_whom_to_trust_is_written_with_the_key() -> None:
    assert parse_trusted(["shop=a=", "ops=b"]) == [("shop", "a="), ("ops", "b")]
    for word in ("shop", "=a", "shop="):
        with pytest.raises(OfflineError, match=f"^--trust '{word}' is no creator and public key; write it like"):
            parse_trusted([word])
    with pytest.raises(JobError, match="'ab' is no public key: 32 bytes in base64, as `elf keygen --signing` prints"):
        Trusted([("shop", "ab")])
