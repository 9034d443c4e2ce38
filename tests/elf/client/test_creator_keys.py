"""A creator's key: where it is found, and that the orders it signs are about what the agent will make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elf.agents.errors import JobError, UnknownJobError
from elf.agents.jobs.definition import Definition, changed_options, load_definition
from elf.agents.jobs.orders import ORDER_HEADER, Order, digest_of
from elf.client import Client
from elf.client.creator_keys import KEY_VARIABLE, CreatorKey, read_creator_key
from elf.client.results import Version
from tests.agents.owned import MINE, THEIRS
from tests.elf.fake_agent import Agent

TEXT = 'name = "top"\nquery = "SELECT product, count(*) AS n FROM clicks GROUP BY product"\n[options]\ntrees = 2\n'
DEFINITION = replace(load_definition(TEXT, creator="shop"), columns={"product": "STRING"}, version=3)
OTHER = "SELECT count(*) AS n FROM clicks"
KEY = CreatorKey(MINE)


def order_of(header: dict[str, str]) -> Order:
    order = msgspec.json.decode(header[ORDER_HEADER], type=Order)
    assert order.is_signed
    return order


def described(**changes: Any) -> dict[str, Any]:
    """What an agent tells of a job that has a creator."""
    versions = [row(replace(DEFINITION, query=OTHER), 1), row(replace(DEFINITION, query=OTHER + " "), 2)]
    return {
        **msgspec.to_builtins(DEFINITION),
        "owner": "key",
        "publication": "p1",
        "ordered_ms": 7,
        "versions": [*versions, row(DEFINITION, 3)],
        **changes,
    }


def row(definition: Definition, number: int) -> dict[str, Any]:
    version = Version(version=number, what="update", query=definition.text, made_ms=1)
    options = msgspec.to_builtins(definition.options)
    return {**msgspec.to_builtins(version), "options": options, "functions": []}


def test_a_key_is_found_where_it_was_made_and_refused_where_others_can_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELF_CREATOR_KEY_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert read_creator_key() is None
    file = tmp_path / "elf" / "creator.key"
    file.parent.mkdir()
    file.write_text(MINE.hex())
    file.chmod(0o640)
    with pytest.raises(JobError, match="others can read your creator's key; run `chmod 600"):
        read_creator_key()
    file.chmod(0o600)
    assert read_creator_key() is not None
    file.write_text("no key")
    with pytest.raises(JobError, match="holds no key"):
        read_creator_key()
    with pytest.raises(JobError, match="No such file"):
        read_creator_key(tmp_path / "none")
    monkeypatch.setenv("ELF_CREATOR_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(JobError, match="No such file"):
        read_creator_key()


@pytest.mark.parametrize("method", ["exists", "expanduser"])
def test_whose_home_cannot_be_looked_into_has_no_key(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is with a service's user that somebody else has run a command, in the other's home."""

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied") if method == "exists" else RuntimeError("no home")

    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setattr(Path, method, refuse)
    assert read_creator_key() is None


def test_what_is_published_is_what_was_signed() -> None:
    order = order_of(KEY.publish(TEXT, "top.toml", None, "shop"))
    assert (order.what, order.job, order.about) == ("publish", "shop/top", digest_of(DEFINITION))
    assert len(order.publication) == 16
    renamed = order_of(KEY.publish(TEXT, "top.toml", "other", "shop"))
    assert renamed.job == "shop/other"
    assert renamed.publication != order.publication


@pytest.mark.parametrize(
    ("what", "other", "after"),
    [
        ("pause", {}, DEFINITION),
        ("update", {"query": OTHER}, replace(DEFINITION, query=OTHER)),
        (
            "update",
            {"options": {"lateness": "5s"}},
            replace(DEFINITION, options=changed_options(DEFINITION.options, {"lateness": "5s"})),
        ),
        ("update", {"definition": (TEXT.replace("n FROM", "m FROM"), "top.toml")}, None),
        ("rollback", {"back": True}, replace(DEFINITION, query=OTHER + " ")),
        ("rollback", {"back": True, "version": 1}, replace(DEFINITION, query=OTHER)),
    ],
)
def test_a_change_is_signed_with_the_definition_that_comes_of_it(what: Any, other: Any, after: Any) -> None:
    order = order_of(KEY.change(what, described(), **other))
    after = after or load_definition(TEXT.replace("n FROM", "m FROM"), creator="shop")
    assert (order.what, order.job, order.publication) == (what, "shop/top", "p1")
    assert order.about == digest_of(after)


def test_orders_rise_whatever_the_clock_says_and_jobs_of_nobody_need_none() -> None:
    far_ms = 1 << 50
    assert order_of(KEY.change("reset", described(ordered_ms=far_ms))).made_ms == far_ms + 1
    assert KEY.change("reset", described(owner="")) == {}
    assert KEY.change("reset", {}) == {}


def test_a_stop_says_for_how_long() -> None:
    for keep, what, keep_ms in (
        (None, "stop", 86_400_000),
        ("2h", "stop", 7_200_000),
        ("0s", "end", 0),
        ("0", "end", 0),
    ):
        order = order_of(KEY.stop(described(), keep))
        assert (order.what, order.keep_ms) == (what, keep_ms)
    partial = {**msgspec.to_builtins(DEFINITION.options), "availability": "partial"}
    assert order_of(KEY.stop(described(options=partial), None)).what == "end"
    assert order_of(KEY.stop(described(), "nonsense")).what == "stop"


def test_a_purge_is_signed_for_what_it_purges() -> None:
    order = order_of(CreatorKey(THEIRS).purge("job/shop/top"))
    assert (order.what, order.job, order.publication) == ("purge", "job/shop/top", "")


def test_what_is_left_of_a_job_ends_by_an_order(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.key"
    file.write_text(MINE.hex())
    file.chmod(0o600)
    agent.service.published["shop", "top"] |= {"owner": "key", "publication": "p1", "ordered_ms": 7}

    async def unknown(creator: str, name: str) -> Any:
        raise UnknownJobError(name)

    monkeypatch.setattr(agent.service, "job", unknown)
    with Client(agent.url, creator_key=file) as client:
        client.stop("shop/top")
        client.stop("shop/top", "0s")
        with pytest.raises(UnknownJobError):
            client.stop("shop/none")
    first, second, none = agent.service.orders
    assert none is None
    for order in (first, second):
        assert order is not None
        assert (order.what, order.publication, order.is_signed) == ("end", "p1", True)
