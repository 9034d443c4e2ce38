"""The dialect's parser: where it cannot be made, that is said before any job is read."""

from __future__ import annotations

from typing import Any

import pytest

from agents.errors import ConfigError
from agents.jobs.dialect import JobSql, require_parser


def test_a_compiled_sqlglot_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(**_: Any) -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    require_parser()
    monkeypatch.setattr(JobSql, "parser_class", staticmethod(compiled))
    with pytest.raises(ConfigError, match=r"interpreted classes .*; `pip uninstall sqlglotc` takes"):
        require_parser()
