"""Where agents' APIs are unless somebody says so, and for how long they are asked.

Loads next to nothing: the command line starts with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from elf.agents.errors import ConfigError

#: Of an agent on this machine that is told nothing else.
DEFAULT_URL = "http://127.0.0.1:4260"
#: Between an agent's URL and its token, where it is told with it. Browsers and programs send nobody what comes after #.
TOKEN_MARK = "#token="
#: How long a question is asked, again where that helps; of long work over archives; and the shortest and the longest.
TIMEOUT_S = 10.0
LONG_TIMEOUT_S = 30.0
TIMEOUT_S_MIN, TIMEOUT_S_MAX = 0.01, 86_400.0


def check_url(url: str) -> None:
    """Refuse what is no agent's URL; raises ConfigError."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{url!r} is not an agent's URL; write it like {DEFAULT_URL}")


def urls_of(given: str | Iterable[str]) -> dict[str, str | None]:
    """Return the URLs of one or several agents, each once; one text may have several, with commas between them.

    Returns:
        URL -> the token that it came with (`http://127.0.0.1:4260/#token=...`), which must not be told to anybody.

    Raises:
        ConfigError: one is no agent's URL, or there is none.
    """
    texts = [given] if isinstance(given, str) else list(given)
    parts = [part.strip().partition(TOKEN_MARK) for text in texts for part in text.split(",")]
    for url, _, _ in parts:
        check_url(url)
    if not parts:
        raise ConfigError(f"name at least one agent's URL, such as {DEFAULT_URL}")
    return {url.rstrip("/"): token or None for url, _, token in parts}


def check_timeout(timeout_s: float) -> None:
    """Refuse what is no time to wait; raises ConfigError."""
    if not TIMEOUT_S_MIN <= timeout_s <= TIMEOUT_S_MAX:
        raise ConfigError(
            f"timeout = {timeout_s!r} is not possible; use {TIMEOUT_S_MIN:g} to {TIMEOUT_S_MAX:,.0f} seconds"
        )
