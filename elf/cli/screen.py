"""Results as they come: on a terminal one table that is drawn anew, elsewhere one below the other, in plain lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from elf.cli.output import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live


#: More, below a table, do not fit on a small terminal; the newest ones are shown.
_NOTES_MAX = 4


class Screen:
    """Where a command shows what changes, and says what happens meanwhile.

    Args:
        console: where to.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._notes: list[str] = []
        self._shown: RenderableType = ""

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """Draw anew what is shown, for the length of a block, if this is a terminal; what was said before stays."""
        if not self.console.is_terminal:
            yield
            return
        from rich.live import Live

        with Live(console=self.console, auto_refresh=False) as self._live:
            try:
                yield
            finally:
                self._live = None

    def show(self, shown: RenderableType) -> None:
        """Show something in the place of what was shown before."""
        self._shown = shown
        if self._live is None:
            self.console.print(shown)
        else:
            self._draw()

    def note(self, text: str) -> None:
        """Say what happened: below what is shown, or in a line of its own."""
        from rich.text import Text

        if self._live is None:
            self.console.print(Text(printable(text), style="cyan"), soft_wrap=True)
        else:
            self._notes.append(text)
            self._draw()

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        assert self._live is not None
        notes = (Text(printable(note), style="cyan") for note in self._notes[-_NOTES_MAX:])
        self._live.update(Group(self._shown, *notes), refresh=True)
