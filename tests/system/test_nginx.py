"""Two real nginx servers under load, their logs rotated: counts by status and path equal nginx's own files."""

import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence

import elf
from tests.ports import free_port
from tests.system.cluster import make_agents, running, wait_until

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
LINE = re.compile(r'^\S+ - \S+ \[[^]]+\] "GET (?P<path>\S+) HTTP/1\.[01]" (?P<status>\d{3}) ')
JOB = """
name = "traffic"
creator = "ops"
query = "SELECT status, path, count(*) AS n FROM access GROUP BY status, path"
[options]
interval = "1s"
"""
Counts = collections.Counter[tuple[int, str]]


class Nginx:
    """One server with its default `combined` log, in a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.port = folder, free_port()
        self.log = folder / "access.log"
        (folder / "html" / "shop").mkdir(parents=True)
        (folder / "html" / "index.html").write_text("home")
        (folder / "html" / "shop" / "cart.html").write_text("cart")
        (folder / "nginx.conf").write_text(
            f"""
            user root; worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
            events {{ worker_connections 128; }}
            http {{
              access_log {self.log}; client_body_temp_path {folder}/t; proxy_temp_path {folder}/t;
              fastcgi_temp_path {folder}/t; uwsgi_temp_path {folder}/t; scgi_temp_path {folder}/t;
              server {{ listen 127.0.0.1:{self.port}; root {folder}/html; }}
            }}"""
        )
        self.process = subprocess.Popen([NGINX, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")])
        wait_until(self._serves, "nginx serves")

    def reopen(self) -> None:
        """Let nginx open its log anew, as logrotate does after a rename, and wait until it has."""
        os.kill(self.process.pid, signal.SIGUSR1)
        wait_until(self.log.exists, "nginx has opened a new log")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(20)

    def _serves(self) -> bool:
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).status == 200
        return False


@contextlib.contextmanager
def servers(folder: pathlib.Path, count: int) -> Iterator[list[Nginx]]:
    made: list[Nginx] = []
    try:
        for number in range(count):
            made.append(Nginx(folder / f"nginx{number}"))
        yield made
    finally:
        for nginx in made:
            nginx.stop()


@contextlib.contextmanager
def load(nginxes: Sequence[Nginx], requests: int) -> Iterator[None]:
    """Keep `ab` busy on each server while the block runs, and wait for its end."""
    clients = [
        subprocess.Popen(
            ["ab", "-q", "-n", str(requests), "-c", "4", f"http://127.0.0.1:{nginx.port}{path}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for nginx in nginxes
        for path in ("/shop/cart.html", "/missing?from=ab")
    ]
    try:
        yield
        for client in clients:
            assert client.wait(60) == 0
    finally:
        for client in clients:
            if client.poll() is None:
                client.kill()
                client.wait()


def own_counts(files: Sequence[pathlib.Path]) -> Counts:
    """Count status and path in nginx's files; an independent reading of the format."""
    counts: Counts = collections.Counter()
    for file in files:
        for line in file.read_text().splitlines():
            found = LINE.match(line)
            assert found, line
            counts[int(found["status"]), found["path"].partition("?")[0]] += 1
    return counts


def elf_counts(client: elf.Client) -> Counts:
    rows = client.query("ops/traffic").rows
    return collections.Counter({(row["status"], row["path"]): row["n"] for row in rows})


def lines_read(path: pathlib.Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_counts_equal_nginx_own_files_through_rotations(tmp_path: pathlib.Path) -> None:
    with servers(tmp_path, 2) as nginxes:
        made = make_agents(tmp_path, [{"access": {"path": str(n.log), "format": "combined"}} for n in nginxes])
        with running(made) as agents, elf.connect(agents[1].url) as client:
            client.publish(text=JOB)
            # A job begins with what its source's file holds when the agent takes it up; a file that was rotated away
            # before is not part of it. Each log has a line already.
            wait_until(lambda: all(agent.counters("access")["read"] for agent in agents), "both agents read")
            with load(nginxes, requests=6_000):
                for rotation in (1, 2):
                    for nginx in nginxes:
                        seen = lines_read(nginx.log)
                        wait_until(lambda n=nginx, s=seen: lines_read(n.log) > s + 200, "the log grows under load")
                        nginx.log.rename(nginx.folder / f"access.log.{rotation}")
                        nginx.reopen()
            files = [file for nginx in nginxes for file in sorted(nginx.folder.glob("access.log*"))]
            assert len(files) == 6
            wait_until(lambda: elf_counts(client) == own_counts(files), "elf counts what nginx's files hold")
            assert client.query("ops/traffic").completeness.gaps == 0
            total = sum(agent.counters("access")["parsed"] for agent in agents)
            assert total == own_counts(files).total()

            # copytruncate: what nginx writes between the copy and the truncation is in no file of its own any more.
            served = own_counts(files)
            with load(nginxes, requests=3_000):
                for nginx in nginxes:
                    seen = lines_read(nginx.log)
                    wait_until(lambda n=nginx, s=seen: lines_read(n.log) > s + 200, "the log grows under load")
                    shutil.copyfile(nginx.log, nginx.folder / "access.log.3")
                    os.truncate(nginx.log, 0)
            for path, status in (("/shop/cart.html", 200), ("/missing", 404)):
                served[status, path] += 2 * 3_000
            wait_until(lambda: client.query("ops/traffic").completeness.gaps >= 2, "both truncations are labelled")
            held = own_counts([file for nginx in nginxes for file in nginx.folder.glob("access.log*")])
            wait_until(lambda: held <= elf_counts(client), "all that nginx's files hold is counted")
            assert elf_counts(client) <= served, "nothing is counted twice"
            assert client.query("ops/traffic").completeness.gaps == 2
