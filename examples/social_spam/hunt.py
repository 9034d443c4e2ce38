"""Zooming in on a spam campaign: one job, whose question is changed while it runs, three times.

Each step is an update of the running job: on all agents from the same interval on, in one to two intervals' time, and
each result says by which version it was counted, so no answer is ever half of one question and half of the next.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from sqlglot import exp

from elf.client import AsyncClient, Result, Version

JOB = "social/spam"
#: Accounts that post so many times as often as the one in the middle of the busiest are suspicious.
BUSY = 3
LINKS = """
SELECT link, count(*) AS posts
FROM posts
WHERE account IN ({accounts}) AND link <> ''
GROUP BY link, window(ts, '{window}')
ORDER BY posts DESC, link LIMIT 5
"""
ACCOUNTS = """
SELECT account, count(*) AS posts
FROM posts
WHERE link = {link}
GROUP BY account, window(ts, '{window}')
ORDER BY posts DESC, account LIMIT 100
"""


class Campaign(NamedTuple):
    """What the hunt has found: the link that is advertised, and all who do it."""

    link: str
    accounts: list[str]


async def hunt(client: AsyncClient, name: str = JOB, window: str = "5 seconds") -> Campaign:
    """Find a campaign: the busiest accounts, the link that they post, everybody who posts it.

    Args:
        client: of any agent.
        name: the job, as it was published.
        window: its window, as SQL writes it.
    """
    suspects: list[str] = []
    async for busiest in complete(client, name, (await client.versions(name))[-1]):
        counts = sorted(row["posts"] for row in busiest.rows)
        suspects = [row["account"] for row in busiest.rows if row["posts"] >= BUSY * counts[len(counts) // 2]]
        if suspects:
            break
    query = LINKS.format(window=window, accounts=", ".join(map(quoted, suspects)))
    links = await first(client, name, await client.update(name, query=query))
    link = links.rows[0]["link"]
    accounts = await first(
        client, name, await client.update(name, query=ACCOUNTS.format(window=window, link=quoted(link)))
    )
    return Campaign(link, [row["account"] for row in accounts.rows])


async def complete(client: AsyncClient, name: str, version: Version) -> AsyncIterator[Result]:
    """Yield the complete results with rows of a version of a job."""
    async for result in client.watch(name):
        if result.version == version.version and result.completeness.complete and result.rows:
            yield result


async def first(client: AsyncClient, name: str, version: Version) -> Result:
    """Return the first of them."""
    return await anext(complete(client, name, version))


def quoted(text: str) -> str:
    """Write a text as a literal of the job's SQL, whatever is in it: these come from strangers."""
    return exp.Literal.string(text).sql("spark")
