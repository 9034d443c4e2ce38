"""What a simulated scenario showed: measured figures beside the wanted ones, and the seed to see it again.

Owns the form of a result; what is measured is in `scenarios` and `trials`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field

_HOLDS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "=": operator.eq}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure; `wanted` is a bound as "<= 16", or empty if the figure is only for information."""

    what: str
    measured: float
    wanted: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure is within its bound."""
        if not self.wanted:
            return True
        sign, bound = self.wanted.split()
        return _HOLDS[sign](self.measured, float(bound))


@dataclass(slots=True)
class Outcome:
    """One run of one scenario."""

    scenario: str
    seed: int
    agents: int
    figures: list[Figure] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    digest: str = ""
    virtual_s: float = 0.0
    wall_s: float = 0.0

    def note(self, what: str, measured: float, wanted: str = "") -> None:
        """Add a figure; one outside its bound is a failure."""
        figure = Figure(what, measured, wanted)
        self.figures.append(figure)
        if not figure.holds:
            self.failures.append(f"{what}: {measured:.4g}, wanted {wanted}")

    def note_most(self, what: str, measured: float, wanted: str = "") -> None:
        """Add a figure, or raise the one of that name."""
        old = next((figure for figure in self.figures if figure.what == what), None)
        if old is not None:
            self.figures.remove(old)
            measured = max(measured, old.measured)
        self.note(what, measured, wanted)

    def lines(self) -> list[str]:
        """Return the result as text, a line for each figure and failure."""
        head = f"{self.scenario}: {self.agents} agents, seed {self.seed}, digest {self.digest}"
        time = f"{self.virtual_s:.1f} s virtual, {self.wall_s:.1f} s wall"
        width = max((len(figure.what) for figure in self.figures), default=0)
        rows = [
            f"  {each.what:<{width}}  {each.measured:>10.4g}  {each.wanted:<10}{'' if each.holds else ' MISSED'}"
            for each in self.figures
        ]
        return [f"{head} ({time})", *(row.rstrip() for row in rows), *(f"  FAILED {text}" for text in self.failures)]
