"""What clients send of a job that brings functions along: its file, signed for the name that it gets."""

from __future__ import annotations

from pathlib import Path

import pytest

import elf
from elf.agents.errors import JobError
from elf.agents.extensions.signed.runners import Trust
from elf.agents.jobs.definition import Definition, load_definition
from tests.agents.extensions.signed.signed_jobs import OTHER, SECRET, SECTION, TRUSTED, text_of
from tests.elf.fake_agent import Agent


def sent(text: str, name: str, creator: str) -> Definition:
    """Return what an agent makes of a text that is published, and hold it to its creator's key."""
    definition = load_definition(text, name=name, creator=creator)
    Trust({creator: TRUSTED["shop"]}).check(creator, name, definition.functions)
    return definition


async def test_published_and_updated_jobs_are_signed_for_who_they_are(agent: Agent, tmp_path: Path) -> None:
    key, file = tmp_path / "shop.key", tmp_path / "sections.toml"
    key.write_text(SECRET.hex() + "\n")
    nobodys = text_of("sections").replace('creator = "shop"\n', "")
    file.write_text(nobodys.replace(f"source = '''{SECTION}'''", 'file = "section.py"'))
    (tmp_path / "section.py").write_text(SECTION)
    async with elf.connect(agent.url) as client:
        job = await client.publish(file, name="mine", key=key)
        (function,) = sent(job.query, "mine", "me").functions
        assert function.source == SECTION
        changed = nobodys.replace("found[1]", "found[0]")
        version = await client.update("mine", text=changed, key=key)
        assert sent(version.query, "mine", "me").functions[0].source != SECTION
        with pytest.raises(JobError, match="no functions of its own to sign"):
            await client.publish(text="SELECT count(*) FROM clicks".join(['query = "', '"']), name="plain", key=key)
        key.write_text(OTHER.hex()[:-2])
        with pytest.raises(JobError, match="holds no key to sign with"):
            await client.update("mine", text=changed, key=key)
    key.write_text(SECRET.hex())
    with elf.connect(agent.url) as blocking:
        assert sent(blocking.publish(file, name="ours", creator="us", key=key).query, "ours", "us")
        assert sent(blocking.update("us/ours", text=changed, key=key).query, "ours", "us")
