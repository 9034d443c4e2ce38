"""Figure 11 of the ELF paper, redrawn from what `scripts/bench cbt` measured: a picture, and a table in docs/CBT.md.

Paper: section 4.2, "Throughput". It compares throughput and memory per unique key of the CBT and Google's sparsehash,
per node of 12 cores; here everything is per core, and there are more peers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cbt_workloads import ENGINES, WORKLOADS, Figures

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURE, PAGE = DOCS / "figure11.png", DOCS / "CBT.md"
_BEGIN, _END = "<!-- table: written by scripts/bench cbt --figure -->", "<!-- end of table -->"
#: The paper's throughput: more than this, per node of so many cores.
PAPER_RATE, PAPER_CORES = 1.0, 12
_PAPER = (
    ("CBT in the paper", f"more than {PAPER_RATE:.0f} M/s, {PAPER_RATE / PAPER_CORES:.2f} per core if shared evenly"),
    ("sparsehash in the paper", "similar speed, scaling linearly with cores; significantly more memory per key"),
)
_ORIGINAL = "original C++ CBT (measured elsewhere)"
_COLORS = {"elf": "#d1495b", "original": "#edae49", "sparse": "#00798c", "absl": "#30638e", "robin": "#5b8e7d"}
_COLORS |= {"dict": "#8d99ae", "polars": "#b8b8d1"}


def measured(results: dict[str, Any]) -> dict[str, dict[str, Figures]]:
    """Return the medians of each workload and engine; the original's are anchors from the tracker."""
    found: dict[str, dict[str, Figures]] = {}
    for name, part in results["workloads"].items():
        workload = WORKLOADS[name]
        runs = part["runs"]
        engines = {
            engine: Figures.medians(workload.inserts, part["distinct"], runs[engine])
            for engine in ENGINES
            if engine in runs
        }
        found[name] = engines | {"original": workload.anchors["original"]}
    return {name: found[name] for name in WORKLOADS if name in found}


def table(results: dict[str, Any]) -> str:
    """Return the paper's and the measured figures as one Markdown table."""
    found = measured(results)
    titles = [WORKLOADS[name].title for name in found]
    lines = [f"| | figures are | the paper's files | {' | '.join(titles)} |", "|---" * (len(titles) + 3) + "|"]
    lines += [f"| {who} | per node of {PAPER_CORES} cores | {what} |{' |' * len(titles)}" for who, what in _PAPER]
    for engine in ("elf", "original", *(engine for engine in ENGINES if engine != "elf")):
        if not any(engine in row for row in found.values()):
            continue
        cells = (
            f"{row[engine].rate:.1f} M/s, {row[engine].after:.0f}/{row[engine].peak:.0f} B" if engine in row else ""
            for row in found.values()
        )
        name = "**elf**" if engine == "elf" else ENGINES.get(engine, _ORIGINAL)
        lines.append(f"| {name} | per core | | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Measured: {results['machine']}."])


def write(text: str) -> None:
    """Put the table where the document has the one before it."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}")


def draw(results: dict[str, Any]) -> None:
    """Write the picture and its table."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = measured(results)
    engines = [engine for engine in _COLORS if any(engine in row for row in found.values())]
    figure, (speed, memory) = pyplot.subplots(2, 1, figsize=(10, 8.5), layout="constrained", sharex=True)
    width = 0.84 / len(engines)
    for index, engine in enumerate(engines):
        places = [place for place, row in enumerate(found.values()) if engine in row]
        row_figures = [row[engine] for row in found.values() if engine in row]
        middles = [place - 0.42 + width * (index + 0.5) for place in places]
        look = {"color": _COLORS[engine], "hatch": "//" if engine == "original" else None, "edgecolor": "white"}
        label = ENGINES.get(engine, _ORIGINAL)
        rates = speed.bar(middles, [each.rate for each in row_figures], width * 0.94, label=label, **look)
        speed.bar_label(rates, fmt="%.1f", fontsize=7, padding=1)
        peaks = memory.bar(middles, [each.peak for each in row_figures], width * 0.94, alpha=0.35, **look)
        memory.bar(middles, [each.after for each in row_figures], width * 0.94, **look)
        memory.bar_label(peaks, [f"{each.after:.0f}/{each.peak:.0f}" for each in row_figures], fontsize=6, padding=1)
    speed.set_ylabel("M keys inserted and drained\nper CPU second, per core")
    memory.set_ylabel("bytes of resident memory per unique key:\nafter the last insert / pale: at the peak")
    memory.set_xticks(range(len(found)), [WORKLOADS[name].short for name in found])
    speed.legend(fontsize=8, ncols=2)
    speed.set_title("Figure 11 of the ELF paper, redrawn: the buffer tree beside hash tables (word count)")
    for axes in (speed, memory):
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(
        f"{results['machine']}. Paper: more than {PAPER_RATE:.0f} M keys/s per node of {PAPER_CORES} cores, "
        f"{PAPER_RATE / PAPER_CORES:.2f} per core if shared evenly.",
        fontsize=7,
    )
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120, bbox_inches="tight")
    write(table(results))
    print(f"drawn: {PICTURE}; written: the table in {PAGE}")
