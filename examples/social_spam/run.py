"""Three servers of a social network on this machine, and a hunt for the campaign in their posts.

python -m examples.social_spam.run
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import subprocess
import sys
import tempfile

import elf
from elf.demo.servers import Servers, until_stopped
from examples.demo.arguments import rate
from examples.social_spam.hunt import JOB, hunt

TEXT = pathlib.Path(__file__).with_name("job.toml").read_text()
SERVERS = 3


async def show(servers: Servers, *, verify: bool) -> None:
    """Start everything, hunt, show the job's history, and let Spark judge what was counted on the way."""
    servers.start()
    await servers.wait_together()
    async with elf.connect(servers.urls[1]) as client:
        job = await client.publish(text=TEXT)
        print(f"{job.key} is published: who posts most?", flush=True)
        found = await hunt(client, JOB)
        print(f"the campaign advertises {found.link}, by {', '.join(sorted(found.accounts))}", flush=True)
    await asyncio.to_thread(_elf, "history", JOB, "--agent", servers.urls[2])
    if verify:
        archives = [word for folder in servers.archives for word in ("--archive", str(folder))]
        await asyncio.to_thread(_elf, "verify", JOB, "--since", "1h", "--agent", servers.urls[2], *archives)


def _elf(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "elf", *arguments], check=False)


async def main() -> None:
    """Run to the end, or until Ctrl-C."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="python -m examples.social_spam.run", description=__doc__)
    parser.add_argument("--rate", type=rate, default=200, help="posts per second and server (default 200)")
    parser.add_argument("--no-verify", action="store_true", help="leave Spark out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="elf-spam-", ignore_cleanup_errors=True) as folder:
        servers = Servers(
            pathlib.Path(folder), SERVERS, args.rate, seed=1, writers={"posts": "examples.social_spam.posts"}
        )
        try:
            await until_stopped(show(servers, verify=not args.no_verify))
        finally:
            servers.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except elf.ElfError as error:
        sys.exit(str(error))
