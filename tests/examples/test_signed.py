"""The example of a job that brings a function along, as whoever tries it first runs it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from elf.cli.app import app

JOB = Path(__file__).parents[2] / "examples" / "signed" / "job.toml"


def test_the_example_runs_unsigned_on_ones_own_files_and_can_be_signed(tmp_path: Path) -> None:
    clicks = tmp_path / "clicks.log"
    paths = ["/shop/toys/kite", "/", "/shop/toys/train", None, "/shop/books/owl"]
    clicks.write_text("".join(json.dumps({"ts": number, "path": path}) + "\n" for number, path in enumerate(paths)))
    ran = CliRunner().invoke(app, ["run", "--input", str(clicks), "--json", str(JOB)])
    assert ran.exit_code == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(row["section"], row["clicks"]) for row in rows] == [("toys", 2), ("books", 1)]
    key = tmp_path / "shop.key"
    assert CliRunner().invoke(app, ["keygen", "--signing", "--out", str(key)]).exit_code == 0
    signed = CliRunner().invoke(app, ["sign", str(JOB), "--key", str(key)])
    assert signed.exit_code == 0 and signed.stdout.startswith(JOB.read_text())
    pipeline = CliRunner().invoke(app, ["pipeline", str(JOB), "--archive", str(tmp_path), "--out", str(tmp_path)])
    assert pipeline.exit_code == 2 and "brings functions of its own along (section)" in pipeline.stderr
