"""Settings: bad values are refused in one sentence that names the setting and the bounds."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from elf.cbt.settings import TreeSettings


@pytest.mark.parametrize("name", ["root_rows", "node_rows", "leaf_rows", "block_rows"])
@pytest.mark.parametrize("value", [0, -1, 2**21 + 1])
def test_sizes_have_bounds(name: str, value: int) -> None:
    sizes: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=rf"^{name} is {value}; it has to be between 1 and 2097152$"):
        TreeSettings(**sizes)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"fan_out": 2}, "fan_out is 2; it has to be between 3 and 1024"),
        ({"fan_out": 1025}, "fan_out is 1025; it has to be between 3 and 1024"),
        ({"codec": "zip"}, "codec is 'zip'; use one of lz4, lz4hc, none"),
        ({"memory_bytes_max": 10}, "memory_bytes_max has to be positive, and needs a spill_folder"),
        (
            {"memory_bytes_max": 0, "spill_folder": pathlib.Path("x")},
            "memory_bytes_max has to be positive, and needs a spill_folder",
        ),
    ],
)
def test_other_bad_values_say_what_is_possible(bad: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + sentence + "$"):
        TreeSettings(**bad)


def test_a_folder_alone_touches_nothing(tmp_path: pathlib.Path) -> None:
    TreeSettings(spill_folder=tmp_path / "spill")
    assert not (tmp_path / "spill").exists()
