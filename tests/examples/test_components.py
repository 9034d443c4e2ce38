"""The example's job finds the components of a graph, window by window."""

import json
import random
from pathlib import Path

import networkx

from elf.agents.jobs.definition import load_definition
from elf.agents.oneshot import evaluate

JOB = Path(__file__).parents[2] / "examples" / "components" / "job.toml"
START_MS = 1_790_000_100_000


def test_labels_are_the_components_once_they_change_no_more(tmp_path: Path) -> None:
    rng = random.Random(3)
    edges = [(f"n{rng.randrange(40)}", f"n{rng.randrange(40)}") for _ in range(30)]
    both = [*edges, *((b, a) for a, b in edges)]
    lines = [{"ts": START_MS + 40 * at, "src": a, "dst": b} for at, (a, b) in enumerate(both)]
    (tmp_path / "edges.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = evaluate(load_definition(JOB.read_text()), [str(tmp_path / "edges.json")], "json").frame
    results = [
        tuple(part.select("node", "label").rows()) for _, part in rows.group_by("window_end", maintain_order=True)
    ]
    parts = networkx.connected_components(networkx.Graph(edges))
    expected = {node: min(part) for part in parts for node in part}
    # All edges are in the window for most of its length, and no component is so wide.
    assert dict(results[40]) == expected and results[40] == results[39] != results[0]
