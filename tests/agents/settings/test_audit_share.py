"""The share of sums that are audited, as people write it."""

import pytest

from elf.agents.errors import ConfigError
from elf.agents.settings.config import AgentConfig, OverlaySection, overlay_settings


@pytest.mark.parametrize(("text", "share"), [("1 %", 0.01), ("0%", 0.0), ("100 %", 1.0), ("0.5 %", 0.005)])
def test_a_share_reaches_the_overlay(text: str, share: float) -> None:
    assert overlay_settings(AgentConfig(overlay=OverlaySection(audit=text)), "a").audit == pytest.approx(share)
    assert overlay_settings(AgentConfig(), "a").audit == 0.01


@pytest.mark.parametrize("text", ["", "1", "101 %", "-1 %", "1e2 %", "nan %", "all", "1 %%", "%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r'overlay.audit = .* is no share; use "0 %" to "100 %"'):
        OverlaySection(audit=text)
