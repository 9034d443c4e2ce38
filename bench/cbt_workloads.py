"""The workloads of `scripts/bench cbt`: their input, made batch by batch, and the truth about it, counted by NumPy.

Input is a function of the workload and nothing else. What making it takes in memory is allocated once, here, and all
of a batch that is new memory is the batch itself; engines make one before they look at their memory for the first time.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl

#: Rows of one input frame.
BATCH_ROWS = 65_536
#: Keys of the small table that every engine fills before the baseline of its memory is taken.
WARM_UP_KEYS = 10_000
#: Where vocabularies and truths are kept.
FOLDER = Path(__file__).resolve().parent.parent / ".bench"
#: Engine: how tables and figures call it.
ENGINES = {
    "elf": "elf",
    "dict": "Python dict",
    "polars": "Polars, amortised",
    "sparse": "google::sparse_hash_map",
    "absl": "absl::flat_hash_map",
    "robin": "tsl::robin_map",
}
_SEED = 20_130_614
_WORD_LETTERS_MIN, _WORD_LETTERS_MAX = 3, 20
_ZIPF_EXPONENT = 1.1

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class Figures:
    """What one engine does: M keys inserted and drained per CPU second, bytes per distinct key at the end and peak."""

    rate: float
    after: float
    peak: float

    @classmethod
    def medians(cls, inserts: int, distinct: int, runs: Sequence[Mapping[str, float]]) -> Figures:
        """Return the medians of what some runs of an engine cost."""
        return cls(
            inserts / statistics.median(run["cpu_s"] for run in runs) / 1e6,
            statistics.median(run["after_bytes"] for run in runs) / distinct,
            statistics.median(run["peak_bytes"] for run in runs) / distinct,
        )


@dataclasses.dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes:
        title, short: how tables and the figure call it.
        draw: how the key of each insert is chosen among `keys`: "uniform", by "zipf", or all "once" before any again.
        words: keys are words of 3 to 20 random letters, not `p-%08d`.
        must: what elf has to reach, goal: what it aims at; None where only a relation is promised.
        anchors: measured elsewhere on this class of machine, each +-40 %; from the tracker.
    """

    name: str
    title: str
    short: str
    keys: int
    inserts: int
    draw: str = "uniform"
    words: bool = False
    must: Figures | None = None
    goal: Figures | None = None
    anchors: dict[str, Figures] = dataclasses.field(default_factory=dict)

    def scaled(self, scale: float) -> Workload:
        """Return this workload with fewer (or more) keys and inserts, in proportion."""
        if scale == 1:
            return self
        keys, inserts = max(1_000, round(self.keys * scale)), max(1_000, round(self.inserts * scale))
        return dataclasses.replace(self, name=f"{self.name}@{scale:g}", keys=keys, inserts=inserts)


def _anchors(original: Figures, *others: Figures) -> dict[str, Figures]:
    return dict(zip(("original", "sparse", "absl", "dict", "polars"), (original, *others), strict=True))


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "uniform",
            "`p-%08d`, 1e6 uniform, 4e6 inserts",
            "p-, 1e6 uniform",
            keys=1_000_000,
            inserts=4_000_000,
            must=Figures(3, 14, 45),
            goal=Figures(6, 9, 30),
            anchors=_anchors(
                Figures(5.9, 76, 107),
                Figures(2.5, 46, 46),
                Figures(3.1, 88, 132),
                Figures(1.5, 131, 131),
                Figures(2.0, 257, 338),
            ),
        ),
        Workload(
            "large",
            "`p-%08d`, 1e7 uniform, 4e7 inserts",
            "p-, 1e7 uniform",
            keys=10_000_000,
            inserts=40_000_000,
            must=Figures(1.6, 12, 35),
            goal=Figures(2.5, 8, 24),
            anchors=_anchors(
                Figures(2.0, 25, 44),
                Figures(1.6, 44, 44),
                Figures(2.0, 70, 105),
                Figures(0.9, 93, 93),
                Figures(1.1, 119, 237),
            ),
        ),
        Workload(
            "zipf",
            "`p-%08d`, Zipf(1.1) over 1e6, 2e7 inserts",
            "p-, Zipf(1.1)",
            keys=1_000_000,
            inserts=20_000_000,
            draw="zipf",
            must=Figures(8, 16, 60),
            goal=Figures(12, 10, 35),
            anchors=_anchors(
                Figures(10.1, 90, 160),
                Figures(6.1, 43, 43),
                Figures(12.4, 72, 101),
                Figures(4.4, 150, 150),
                Figures(9.0, 246, 319),
            ),
        ),
        Workload(
            "words",
            "words of 3 to 20 letters, 1e6, 1e7 inserts",
            "random words, 1e6",
            keys=1_000_000,
            inserts=10_000_000,
            words=True,
            must=Figures(2.5, 22, 60),
            goal=Figures(5, 16, 40),
            anchors=_anchors(
                Figures(5.7, 104, 217),
                Figures(2.2, 59, 60),
                Figures(3.0, 99, 144),
                Figures(1.3, 131, 131),
                Figures(1.8, 267, 383),
            ),
        ),
    )
}
#: For memory at a cap: every key once, then a fifth of them again.
FIFTY_MILLION = Workload(
    "fifty", "`p-%08d`, 5e7 once, 1e7 again", "p-, 5e7", keys=50_000_000, inserts=60_000_000, draw="once"
)


class Input:
    """The keys of one workload, batch by batch."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._rng = np.random.default_rng(_SEED)
        self._uniform = np.empty(BATCH_ROWS)
        self._ids = np.empty(BATCH_ROWS, np.int64)
        self._offsets = np.zeros(BATCH_ROWS + 1, np.int64)
        self._rows = np.empty((BATCH_ROWS, _WORD_LETTERS_MAX if workload.words else 10), np.uint8)
        self._lengths = np.full(BATCH_ROWS, 10, np.uint8)
        self._places = np.arange(self._rows.shape[1], dtype=np.uint8)
        self._inside = np.empty(self._rows.shape, np.bool_)
        if workload.words:
            letters, counts = vocabulary(workload.keys)
            self._letters = letters
            self._letter_counts = counts
        else:
            self._rows[:, :2] = np.frombuffer(b"p-", np.uint8)
            digits = np.arange(10_000)[:, None] // np.array([1000, 100, 10, 1]) % 10
            self._digits = (digits + ord("0")).astype(np.uint8)
        if workload.draw == "zipf":
            weights = np.arange(1, workload.keys + 1) ** -_ZIPF_EXPONENT
            self._cumulative = np.cumsum(weights / weights.sum())
            self._shuffled = np.random.default_rng(_SEED + 1).permutation(workload.keys).astype(np.int32)

    def batches(self) -> Iterator[Integers]:
        """Yield the keys of the whole workload as numbers below `workload.keys`; a batch lives until the next one."""
        done = 0
        while done < self.workload.inserts:
            rows = min(BATCH_ROWS, self.workload.inserts - done)
            yield self._draw(done, rows)
            done += rows

    def warm_up(self) -> Integers:
        """Return one batch of `WARM_UP_KEYS` different keys, from another seed than the workload's."""
        keys = min(WARM_UP_KEYS, self.workload.keys)
        self._ids[:] = np.random.default_rng(_SEED + 2).integers(0, keys, BATCH_ROWS)
        return self._ids

    def packed(self, ids: Integers) -> tuple[Bytes, Bytes]:
        """Return the lengths of some keys, which live until the next batch, and their bytes end to end, newly made."""
        count = len(ids)
        rows, lengths = self._rows[:count], self._lengths[:count]
        if not self.workload.words:
            rows[:, 2:6] = self._digits[ids // 10_000]
            rows[:, 6:] = self._digits[ids % 10_000]
            return lengths, rows.reshape(-1).copy()
        np.take(self._letters, ids, axis=0, out=rows)
        np.take(self._letter_counts, ids, out=lengths)
        inside = np.less(self._places, lengths[:, None], out=self._inside[:count])
        return lengths, rows[inside]

    def keys(self, ids: Integers) -> pl.Series:
        """Return some keys as a String column of its own memory."""
        lengths, data = self.packed(ids)
        offsets = self._offsets[: len(ids) + 1]
        np.cumsum(lengths, out=offsets[1:])
        array = nanoarrow.c_array_from_buffers(nanoarrow.large_string(), len(ids), [None, offsets, data])
        return pl.Series("key", nanoarrow.Array(array))

    def frame(self, ids: Integers) -> pl.DataFrame:
        """Return a PAO frame of some keys, each counted once."""
        return pl.DataFrame(
            {
                "interval": pl.repeat(0, len(ids), dtype=pl.Int64(), eager=True),
                "key": self.keys(ids),
                "a0_n": pl.repeat(1, len(ids), dtype=pl.Int64(), eager=True),
            }
        )

    def _draw(self, done: int, rows: int) -> Integers:
        ids = self._ids[:rows]
        if self.workload.draw == "once":
            # A step without a common divisor visits every number once before it comes round.
            ids[:] = np.arange(done, done + rows)
            ids *= _coprime(self.workload.keys)
            ids %= self.workload.keys
            return ids
        uniform = self._rng.random(out=self._uniform)[:rows]
        if self.workload.draw == "zipf":
            uniform *= self._cumulative[-1]
            ids[:] = self._shuffled[np.searchsorted(self._cumulative, uniform, side="right")]
        else:
            uniform *= self.workload.keys
            ids[:] = uniform
        return ids


def _coprime(keys: int) -> int:
    step = int(keys * 0.618) | 1
    while np.gcd(step, keys) != 1:
        step += 2
    return step


def vocabulary(count: int) -> tuple[Bytes, Bytes]:
    """Return `count` different words as rows of letters, zeros behind them, and their lengths; made once."""
    path = FOLDER / f"cbt-words-{count}.npy"
    if not path.exists():
        rng = np.random.default_rng(_SEED + 3)
        # Short words repeat: there are 17,576 of three letters.
        drawn = count + count // 4 + 1_000
        lengths = rng.integers(_WORD_LETTERS_MIN, _WORD_LETTERS_MAX + 1, drawn)
        letters = rng.integers(ord("a"), ord("z") + 1, (drawn, _WORD_LETTERS_MAX)).astype(np.uint8)
        letters[np.arange(_WORD_LETTERS_MAX) >= lengths[:, None]] = 0
        different = np.unique(letters.view(f"S{_WORD_LETTERS_MAX}").reshape(-1))
        chosen = rng.permutation(different)[:count]
        assert len(chosen) == count
        FOLDER.mkdir(exist_ok=True)
        np.save(path, chosen.view(np.uint8).reshape(count, _WORD_LETTERS_MAX))
    letters = np.load(path)
    return letters, (letters != 0).sum(axis=1, dtype=np.uint8)


def truth(workload: Workload) -> Integers:
    """Return how often each key of a workload is inserted; counted once."""
    path = FOLDER / f"cbt-truth-{workload.name}.npy"
    if not path.exists():
        counts = np.zeros(workload.keys, np.int64)
        for ids in Input(workload).batches():
            np.add.at(counts, ids, 1)
        FOLDER.mkdir(exist_ok=True)
        np.save(path, counts)
    return np.asarray(np.load(path), np.int64)


def difference_from_truth(workload: Workload, drained: Iterator[tuple[pl.Series, pl.Series]]) -> str | None:
    """Compare drained keys and counts with the truth, key by key; returns what is wrong with them."""
    counts, seen, rows = truth(workload), np.zeros(workload.keys, np.int64), 0
    words = None
    if workload.words:
        numbers = np.arange(workload.keys)
        words = pl.DataFrame({"id": numbers, "key": pl.concat(_columns(workload, numbers))})
    for keys, values in drained:
        rows += len(keys)
        if words is None:
            ids = keys.str.slice(2).cast(pl.Int64).to_numpy()
        else:
            ids = keys.to_frame("key").join(words, on="key", how="left", maintain_order="left")["id"].to_numpy()
        np.add.at(seen, ids, values.to_numpy())
    distinct = int(np.count_nonzero(counts))
    if rows != distinct:
        return f"{rows:,} keys were drained, {distinct:,} were inserted"
    wrong = int(np.count_nonzero(seen != counts))
    return f"{wrong:,} keys have a wrong count" if wrong else None


def _columns(workload: Workload, numbers: Integers) -> list[pl.Series]:
    source = Input(workload)
    return [source.keys(numbers[at : at + BATCH_ROWS]) for at in range(0, len(numbers), BATCH_ROWS)]
