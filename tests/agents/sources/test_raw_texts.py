"""Columns with the texts of values that do not fit, beside the columns that they belong to."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from elf.agents.errors import ConfigError
from elf.agents.intake.decoder import make_decoder
from elf.agents.language.paths import column_of, steps_of
from elf.agents.settings.config import PrivacySection, SourceConfig
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.raw_texts import UnfitValues, is_raw, raw_column, raw_name, stacked, typed_name


def test_a_column_of_texts_has_a_name_that_no_path_has() -> None:
    assert typed_name(raw_name("a.b")) == "a.b" and is_raw(raw_name("a")) and not is_raw("a")
    assert steps_of(raw_name("a")) == ("a[raw]",) and not is_raw(column_of(("a[raw]",)))
    with pytest.raises(ConfigError, match=r"sources\.s\.columns: 'n\[raw\]': .* give it another name"):
        make_decoder("s", SourceConfig(columns={"n": "BIGINT", "n[raw]": "STRING"}))


def test_it_is_null_where_values_fit() -> None:
    texts = pl.Series(["n/a", "2.5"])
    found = raw_column("n", 4, UnfitValues(np.array([1, 3]), texts))
    assert (found.name, found.to_list()) == ("n[raw]", [None, "n/a", None, "2.5"])
    assert raw_column("n", 2, UnfitValues(np.array([1]), None)).to_list() == [None, None]


def test_frames_with_and_without_one_are_put_together() -> None:
    one, other = (
        pl.DataFrame({"n": [1]}),
        pl.DataFrame({"n": [None], "n[raw]": ["x"]}, schema_overrides={"n": pl.Int64}),
    )
    assert stacked([one, other, one]).rows() == [(1, None), (None, "x"), (1, None)]
    assert stacked([one, one]).columns == ["n"]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (PrivacySection(drop=["n"]), None),
        (PrivacySection(mask=["n"]), "***"),
        (PrivacySection(ip="prefix", ip_columns=["n"]), "203.0.113.0"),
        (PrivacySection(ip="prefix"), "203.0.113.0"),
        (PrivacySection(), "203.0.113.7"),
    ],
)
def test_it_is_redacted_as_its_column_is(settings: PrivacySection, wanted: str | None) -> None:
    events = pl.DataFrame({"n": [None], "n[raw]": ["203.0.113.7"]}, schema_overrides={"n": pl.Int64})
    assert Redactor(settings).events(events)["n[raw]"].to_list() == [wanted]
