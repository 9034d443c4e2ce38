"""The fixed hash: these numbers are part of the protocol between agents, and must never change."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from elf.cbt.hashing import hash_words, mix64
from elf.cbt.words import KeyLayout


def words(*numbers: int) -> list[np.ndarray]:
    return [np.array([number], dtype=np.uint64) for number in numbers]


VECTORS: list[tuple[list[int], int]] = [
    ([0], 0x149E3A78B8F2F8E2),
    ([1], 0x0000000000000000),
    ([2**64 - 1], 0xA489448A90EDC358),
    ([0, 0], 0x27BD39DBCC19EFC6),
    ([1, 2], 0x38D808BB22670FA6),
    ([2, 1], 0x149E3A78B8F2F8E2),
    ([0, 0, 0], 0x708E6FC976377455),
    (list(range(64)), 0x1C4F27B76577D079),
    (list(range(65)), 0x6F0D8724EE55DD85),
]
KEYS = [
    ([pl.String()], [0, None], 0x708E6FC976377455, 0x708E6FC976000000),
    ([pl.String()], [0, ""], 0xCC40EDB60B146E92, 0xCC40EDB60B000000),
    ([pl.String()], [0, "/index.html"], 0xAA6680AE35D9F8C4, 0xAA6680AE35000000),
    ([pl.String()], [1, "/index.html"], 0xAA6680AE35D9F8C4, 0xFCF496B325000000),
    ([pl.String()], [0, "é" * 300], 0x17674C781E8F3447, 0x17674C781E000000),
    ([pl.Int64()], [0, -1], 0xA927420EDC167B72, 0xA927420EDC000000),
    ([pl.Int64()], [-1, None], 0x3B30F7425B2DDD1D, 0x8FE0A2BEA9000000),
    ([pl.Float64()], [0, float("nan")], 0xF1DBACEF0E64A27D, 0xF1DBACEF0E000000),
    ([pl.Float64()], [0, -0.0], 0x27BD39DBCC19EFC6, 0x27BD39DBCC000000),
    (
        [pl.String(), pl.Int32(), pl.Boolean(), pl.String()],
        [7, "a\0", 404, True, "GET"],
        0x32A9F97A3FDB5E44,
        0x2007C95944000000,
    ),
    ([], [28_000_000], 0x0000000000000000, 0x4413E02CA2000000),
]


def test_mix64_is_the_finaliser_of_splitmix64() -> None:
    # The first outputs of SplitMix64 seeded with 0 (Vigna's reference): its state grows by the golden ratio.
    state = np.array([0x9E3779B97F4A7C15, 0x3C6EF372FE94F82A], dtype=np.uint64)
    assert [hex(value) for value in mix64(state)] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4"]
    assert mix64(np.zeros(1, dtype=np.uint64)).tolist() == [0]


@pytest.mark.parametrize(("numbers", "hashed"), VECTORS)
def test_words_hash_to_what_they_always_did(numbers: list[int], hashed: int) -> None:
    assert hex(int(hash_words(words(*numbers), 1)[0])) == hex(hashed)


@pytest.mark.parametrize(("types", "key", "partition", "order"), KEYS)
def test_keys_hash_to_what_they_always_did(
    types: list[pl.DataType], key: list[object], partition: int, order: int
) -> None:
    layout = KeyLayout((("interval", pl.Int64()), *((f"k{number}", dtype) for number, dtype in enumerate(types))))
    series = [pl.Series(name, [value], dtype=dtype) for (name, dtype), value in zip(layout.columns, key, strict=True)]
    ((_, encoded),) = layout.encode(pl.DataFrame(series))
    assert hex(int(layout.partition_hash(encoded)[0])) == hex(partition)
    assert hex(int(layout.order(encoded)[0])) == hex(order)


def test_wide_text_hashes_as_its_words_do_one_by_one() -> None:
    table = np.random.default_rng(0).integers(0, 2**64, (5, 100), dtype=np.uint64)
    narrow = [np.ascontiguousarray(column) for column in table.T]
    assert hash_words(narrow, 5).tolist() == hash_words([*narrow[:3], table[:, 3:]], 5).tolist()


@pytest.mark.parametrize("width", [1, 3, 64, 65])
def test_every_bit_of_every_word_counts(width: int) -> None:
    rows = [[0] * width]
    for word in range(width):
        rows += [[0] * word + [1 << bit] + [0] * (width - word - 1) for bit in range(0, 64, 7)]
    table = np.array(rows, dtype=np.uint64)
    hashed = hash_words([np.ascontiguousarray(column) for column in table.T], len(rows))
    assert len({int(value) >> 24 for value in hashed}) == len(rows)


def test_no_words_at_all_have_a_hash() -> None:
    assert hash_words([], 3).tolist() == [0, 0, 0]
