"""Measure elf's buffer tree beside hash tables and Polars: `scripts/bench cbt`.

Every run is a process of its own on one core; engines take turns, so that a busy moment of the machine hits all, and
figures are medians. A must of the tracker's table that is not kept makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cbt_native import NATIVE, build
from cbt_workloads import ENGINES, FIFTY_MILLION, FOLDER, WORKLOADS, Figures, Workload, truth

HERE = Path(__file__).resolve().parent
RESULTS = FOLDER / "cbt.json"
CAP_MIB = 256
#: Throughput at the cap, of that in memory.
CAP_RATE_MIN = 0.25
#: A flush after a few inserts, of a flush after none.
FLUSH_RATIO_MAX = 1.3
#: An event loop in the same process may wait so long for a tree's thread.
LOOP_MS_MAX = 5
#: A peer further from its anchor than this is worth a look.
ANCHOR_TOLERANCE = 0.4

Run = dict[str, float]


def child(script: str, *arguments: str) -> Run:
    """Run one script of this folder in a process of its own; returns the JSON it prints."""
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[1:])} failed")
    result: Run = json.loads(done.stdout.splitlines()[-1])
    return result


def prepare(workload: Workload) -> int:
    """Make the truth about a workload; returns its distinct keys. In a process of its own: this one stays small."""
    with get_context("spawn").Pool(1) as pool:
        return int((pool.apply(truth, (workload,)) > 0).sum())


def available(wanted: list[str] | None) -> list[str]:
    """Return the engines that can run here; says what is missing for the others. A robin map stands in for absl's."""
    engines = []
    for engine in wanted or [engine for engine in ENGINES if engine != "robin"]:
        missing = build(engine)[1] if engine in NATIVE else ""
        if missing:
            print(f"{ENGINES[engine]}: not measured: {missing}")
        else:
            engines.append(engine)
    if wanted is None and "absl" not in engines and build("robin")[0] is not None:
        engines.append("robin")
    return engines


def measure(workload: Workload, base: str, engines: list[str], args: argparse.Namespace) -> dict[str, Figures]:
    """Run all engines in turn over one workload and print their table."""
    distinct = prepare(workload)
    runs: dict[str, list[Run]] = {engine: [] for engine in engines}
    common = [base, "--scale", str(args.scale), "--core", str(args.core)]
    keep = ["--keep-freed"] if args.keep_freed else []
    for repeat in range(args.repeats):
        for engine in engines:
            settings = ["--settings", json.dumps(args.settings), *keep] if engine == "elf" else []
            runs[engine].append(child("cbt_engine.py", engine, *common, *settings))
        print(f"cbt: {workload.name}, repeat {repeat + 1} of {args.repeats}", file=sys.stderr)
    medians = {engine: Figures.medians(workload.inserts, distinct, costs) for engine, costs in runs.items()}
    anchors = workload.anchors if args.scale == 1 else {}
    title = workload.title if args.scale == 1 else f"{workload.title}, all times {args.scale:g}"
    print(f"\n**{title}** ({distinct:,} different keys)\n")
    print("| engine | M keys per CPU s | slowest to fastest | B per key, after | at the peak | anchor, +-40 % |")
    print("|---|---|---|---|---|---|")
    for engine, figure in medians.items():
        rates = sorted(workload.inserts / run["cpu_s"] / 1e6 for run in runs[engine])
        anchor = anchors.get(engine)
        beside = _cell(anchor) + _off(figure, anchor) if anchor else ""
        print(
            f"| {ENGINES[engine]} | {figure.rate:.2f} | {rates[0]:.2f} to {rates[-1]:.2f} "
            f"| {figure.after:.0f} | {figure.peak:.0f} | {beside} |"
        )
    if original := anchors.get("original"):
        print(f"| original C++ CBT, not measured here | | | | | {_cell(original)} |")
    if args.scale == 1:
        store("workloads", {base: {"distinct": distinct, "runs": runs, "args": args.settings}}, args)
    return medians


def promises(measured: dict[str, Figures]) -> bool:
    """Print what elf has to reach beside what it reaches; returns whether all of it is kept."""
    print("\n| workload | elf | must | goal | speed | memory after | at the peak |\n|---|---|---|---|---|---|---|")
    kept = True
    for name, figure in measured.items():
        workload = WORKLOADS[name]
        must, goal = workload.must, workload.goal
        assert must is not None and goal is not None
        verdicts = [
            _verdict(figure.rate >= must.rate, figure.rate >= goal.rate),
            _verdict(figure.after <= must.after, figure.after <= goal.after),
            _verdict(figure.peak <= must.peak, figure.peak <= goal.peak),
        ]
        kept &= all(verdict != NOT_KEPT for verdict in verdicts)
        print(f"| {workload.title} | {_cell(figure)} | {_cell(must)} | {_cell(goal)} | {' | '.join(verdicts)} |")
    return kept


def cap(args: argparse.Namespace) -> bool:
    """Put 50 M keys through a tree of bounded memory and through one without a bound; returns whether it keeps up."""
    workload = FIFTY_MILLION.scaled(args.scale)
    cap_bytes = round((args.cap_mib << 20) * args.scale)
    distinct = prepare(workload)
    common = ["elf", FIFTY_MILLION.name, "--scale", str(args.scale), "--core", str(args.core), "--settings"]
    free = child("cbt_engine.py", *common, json.dumps(args.settings))
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="cbt-spill-") as folder:
        bound = {"memory_bytes_max": cap_bytes, "spill_folder": folder}
        capped = child("cbt_engine.py", *common, json.dumps(args.settings | bound))
    print(f"\n**{workload.title}** ({distinct:,} different keys), one run each, counts checked key by key\n")
    print("| memory | M keys per CPU s | growth of resident memory after, MB | at the peak, MB | on disk, MB |")
    print("|---|---|---|---|---|")
    for name, run in (("no bound", free), (f"{cap_bytes >> 20} MiB, the rest on disk", capped)):
        rate = workload.inserts / run["cpu_s"] / 1e6
        sizes = (run[of] / 1e6 for of in ("after_bytes", "peak_bytes", "spilled_bytes"))
        print(f"| {name} | {rate:.2f} | {' | '.join(f'{size:.0f}' for size in sizes)} |")
    ratio = free["cpu_s"] / capped["cpu_s"]
    kept = ratio >= CAP_RATE_MIN
    print(f"\n{_verdict(kept)}: at the cap {ratio:.2f} of the throughput in memory, at least {CAP_RATE_MIN}")
    if args.scale == 1 and args.cap_mib == CAP_MIB:
        store("cap", {"free": free, "capped": capped, "cap_bytes": cap_bytes}, args)
    return kept


def flush(args: argparse.Namespace) -> bool:
    """Flush 1 M keys with and without 10 k inserts before; returns whether that makes no more of a difference."""
    result = child(
        "cbt_flush.py", "--scale", str(args.scale), "--core", str(args.core), "--settings", json.dumps(args.settings)
    )
    idle_s, busy_s, ratio = (result[name] for name in ("idle_s", "busy_s", "ratio"))
    print(f"\n**flush** of {result['keys']:,} keys, medians of {result['repeats']:.0f} in turn, CPU ms\n")
    print("| nothing new | after 10,000 new inserts | insert itself | ratio |\n|---|---|---|---|")
    print(f"| {idle_s * 1e3:.1f} | {busy_s * 1e3:.1f} | {result['insert_s'] * 1e3:.1f} | {ratio:.2f} |")
    kept = ratio <= FLUSH_RATIO_MAX
    print(f"\n{_verdict(kept)}: a flush after a few inserts is at most {FLUSH_RATIO_MAX} x one after none")
    if args.scale == 1:
        store("flush", result, args)
    return kept


def loop(args: argparse.Namespace) -> bool:
    """Fill and flush a tree beside an event loop; returns whether no wake-up came too late."""
    result = child("cbt_loop.py")
    print("\n**event loop** beside a thread that inserts 40 batches of words and flushes three times, ms late\n")
    print("| | median | 99 % | 99.9 % | latest |\n|---|---|---|---|---|")
    for name in ("idle", "busy"):
        cells = [f"{result[name + '_' + of + '_ms']:.2f}" for of in ("p50", "p99", "p99.9", "max")]
        print(f"| {name} | {' | '.join(cells)} |")
    kept = result["busy_max_ms"] <= LOOP_MS_MAX
    print(f"\n{_verdict(kept)}: the loop waits at most {LOOP_MS_MAX} ms")
    store("loop", result, args)
    return kept


def store(part: str, result: dict[str, Any], args: argparse.Namespace) -> None:
    """File a part of the results, for the figure; workloads and engines not measured this time keep theirs."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if part == "workloads":
        for name, measured in result.items():
            old = results.setdefault(part, {}).setdefault(name, {"runs": {}})
            old["runs"] |= measured["runs"]
            old["distinct"] = measured["distinct"]
    else:
        results[part] = result
    results["machine"] = machine()
    results.setdefault("settings", {})[part] = args.settings
    RESULTS.write_text(json.dumps(results, indent=1))


def machine() -> str:
    """Name date, processor and Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {model}, Python {platform.python_version()}"


NOT_KEPT = "**not kept**"


def _verdict(kept: bool, goal: bool = False) -> str:
    return ("goal" if goal else "kept") if kept else NOT_KEPT


def _cell(figure: Figures) -> str:
    return f"{figure.rate:.1f} M/s, {figure.after:.0f}/{figure.peak:.0f} B"


def _off(figure: Figures, anchor: Figures) -> str:
    pairs = {"speed": (figure.rate, anchor.rate), "after": (figure.after, anchor.after)}
    pairs["peak"] = (figure.peak, anchor.peak)
    off = [name for name, (ours, theirs) in pairs.items() if abs(ours / theirs - 1) > ANCHOR_TOLERANCE]
    return f" (off: {', '.join(off)})" if off else ""


def main() -> None:
    """Run the parts asked for; exit 1 if a must is not kept."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench cbt", description=main.__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES))
    parser.add_argument("--scale", type=float, default=1.0, help="of keys and inserts; promises are for 1")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core all engines run on")
    parser.add_argument("--settings", type=json.loads, default={}, help="of elf's tree: '{\"fan_out\": 16}'")
    parser.add_argument("--keep-freed", action="store_true", help="run elf with an agent's allocator settings")
    parser.add_argument("--cap", action="store_true", help="only: 50 M keys through 256 MiB")
    parser.add_argument("--cap-mib", type=int, default=CAP_MIB, help="another bound for --cap")
    parser.add_argument("--flush", action="store_true", help="only: flush after a few inserts")
    parser.add_argument("--loop", action="store_true", help="only: how long an event loop waits beside the tree")
    parser.add_argument("--figure", action="store_true", help="only: draw docs/figure11.png from the last results")
    parser.add_argument("--all", action="store_true", help="all of these, after the table")
    args = parser.parse_args()
    if args.figure:
        _draw()
        return
    print(machine())
    kept = True
    if args.all or not (args.cap or args.flush or args.loop):
        engines = available(args.engines)
        measured = {}
        for name in args.workloads:
            medians = measure(WORKLOADS[name].scaled(args.scale), name, engines, args)
            if "elf" in medians:
                measured[name] = medians["elf"]
        if measured and args.scale == 1:
            kept &= promises(measured)
    if args.cap or args.all:
        kept &= cap(args)
    if args.flush or args.all:
        kept &= flush(args)
    if args.loop or args.all:
        kept &= loop(args)
    if args.all:
        _draw()
    sys.exit(not kept)


def _draw() -> None:
    from cbt_figure import draw

    draw(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
