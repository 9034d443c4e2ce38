"""What the documents point at is there: files, and sections of files; and the first one's settings may be copied.

What it has newcomers type, from nothing to the answer of a log of their own and back to nothing, is typed here.
"""

from __future__ import annotations

import datetime
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from elf.checking.validate import check_config, check_job
from tests.elf.demo.test_ties import processes_of
from tests.packaging.building import copy_checkout
from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / name for name in ("README.md", "SECURITY.md", "bench/README.md")]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))


def anchors(document: Path) -> set[str]:
    """The names of a document's sections, as links have them."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = document.parent / path if path else document
        assert linked.exists(), f"{target}: there is no such file"
        assert not anchor or anchor in anchors(linked), f"{target}: there is no such section"


def test_every_page_can_be_found_from_the_first_one() -> None:
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)\s#]+)", (ROOT / "README.md").read_text())}
    assert not {page.name for page in DOCUMENTS[1:]} - {page.name for page in linked}


def test_settings_and_jobs_of_the_first_page_are_valid() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    jobs = [block for block in blocks if "query = " in block]
    settings = "\n".join(block for block in blocks if block not in jobs)
    assert jobs and "[sources.access.privacy]" in settings
    assert [check_job(job, "README.md") for job in jobs] == [()] * len(jobs)
    assert check_config(settings, "README.md")[1] == ()


#: Stands for the `elf` that was installed, where a person would answer a question, look for a while, and press Ctrl-C.
PERSON = """#!/usr/bin/env bash
run() {{ {python} -m elf "$@"; }}
case "$1" in
    demo) run "$@" --seconds 15 --kill-after 1 ;;
    init) run "$@" --yes {init} ;;
    top) for _ in $(seq 300); do run "$@" --once && exit; sleep 0.2; done; exit 1 ;;
    agent) exec {python} -m elf "$@" ;;
    *) run "$@" ;;
esac
"""


#: As long as it takes without kernels.
DEMO = "elf demo --seconds 30"


def blocks(section: str) -> list[str]:
    """The commands of one section of the first page."""
    text = (ROOT / "README.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [block for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]


class Newcomer:
    """Somebody with a server: its nginx logs visitors, who come all the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self._ended = folder, folder / "access.log", threading.Event()
        (folder / "nginx.conf").write_text(f"events {{}} http {{ access_log {self.log} combined; }}")
        (folder / "bin").mkdir()
        overlay, api = free_port(), free_port()
        init = f"--server-config {folder}/nginx.conf --bind 127.0.0.1:{overlay} --api 127.0.0.1:{api}"
        (folder / "bin" / "elf").write_text(PERSON.format(python=sys.executable, init=init))
        (folder / "bin" / "elf").chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONPATH": str(ROOT),
            "ELF_AGENT": f"http://127.0.0.1:{api}",
            "ELF_CREATOR": "me",
        }
        self._visits = threading.Thread(target=self._visit)
        self._visits.start()

    def _visit(self) -> None:
        while True:
            now = datetime.datetime.now(datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
            with self.log.open("a") as log:
                log.write(f'10.0.0.1 - - [{now}] "GET /visited HTTP/1.1" 503 7 "-" "curl/8.1"\n')
            if self._ended.wait(0.2):
                return

    def types(self, *commands: str) -> str:
        """Type blocks into one shell, which ends at the first mistake, and return all that is seen."""
        text = "\n".join(("set -eo pipefail", *commands)).replace("/var/log/nginx/access.log", str(self.log))
        shell = subprocess.Popen(
            ["bash", "-c", text],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            seen, _ = shell.communicate(timeout=240)
        finally:
            if shell.poll() is None or processes_of(self.folder):
                os.killpg(shell.pid, signal.SIGKILL)
        assert shell.returncode == 0, seen
        return seen

    def leaves(self) -> None:
        self._ended.set()
        self._visits.join()


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path)
    yield newcomer
    newcomer.leaves()


def test_what_the_first_page_has_newcomers_try(newcomer: Newcomer) -> None:
    tried = blocks("Try it")
    assert [block.split()[1] for block in tried[:4]] == ["demo", "run", "init", "%1"]
    assert "scripts/demo" in tried[4] and len(tried) == 5, "what is tried in a checkout sets it up: other tests do"
    seen = newcomer.types(*tried[:4])
    assert "the label names it" in seen
    assert re.search(r"/visited +\d+ +\d+", seen) and "me/first" in seen
    assert "nothing is wrong" in seen
    left = {path.name for path in newcomer.folder.iterdir()} - {".cache", ".config"}
    assert left == {"access.log", "bin", "nginx.conf", "slow.sql"}


def test_the_first_page_installs_what_the_demo_needs(newcomer: Newcomer) -> None:
    """No checkout is on the path then. Other packages are those of this environment: they are the lock file's test."""
    (block,) = blocks("Install")
    checkout = copy_checkout(newcomer.folder / "checkout")
    newcomer.environment |= {
        "PIP_NO_DEPS": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "CC": "false",  # kernels are optional
        "PYTHONPATH": next(path for path in sys.path if path.endswith("site-packages")),
    }
    block = block.replace("PATH-TO-THIS-CHECKOUT", str(checkout)).replace("/opt/elf", f"{newcomer.folder}/opt")
    seen = newcomer.types(block.replace("python3", sys.executable), "command -v elf", "cd /", "elf --version", DEMO)
    assert f"{newcomer.folder}/opt/bin/elf" in seen and re.search(r"^elf \d", seen, re.MULTILINE)
    assert "the first window came" in seen
