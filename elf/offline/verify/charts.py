"""One chart as SVG: a share from 0 to 1 for each window, over time. Pure; colours are the page's (`report.css`)."""

from __future__ import annotations

import html
from collections.abc import Sequence

from elf.agents.language.instants import instant

WIDTH, HEIGHT = 960, 180
#: Room for the axes' words.
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 12, 24
#: Bars there is room for; of more windows those that share a bar show their worst.
BARS_MAX = 400
_ORDER = ("good", "known", "bad")
#: (time in ms, share, state, what it says when pointed at)
Point = tuple[int, float, str, str]


def steps_chart(points: Sequence[Point]) -> str:
    """Draw the shares of windows, at least one, ascending in time.

    The axis begins at zero, or near the lowest share where all are high, so that a thousandth is seen.
    """
    bars = worst_of(points, BARS_MAX)
    floor = _floor(min(share for _, share, _, _ in bars))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = plot_width / len(bars)
    drawn = []
    for place, (_, share, state, said) in enumerate(bars):
        height = max(2.0, plot_height * (share - floor) / (1 - floor))
        x, y = LEFT + place * step, TOP + plot_height - height
        drawn.append(
            f'<rect class="{state}" x="{x:.2f}" y="{y:.2f}" width="{max(1.0, min(step - 1, 24)):.2f}" '
            f'height="{height:.2f}"><title>{html.escape(said)}</title></rect>'
        )
    lines = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.5g} %</text>'
        for share, y in (
            (100 * (floor + part * (1 - floor)), TOP + plot_height * (1 - part)) for part in (0.0, 0.5, 1.0)
        )
    )
    base = HEIGHT - 6
    ends = f'<text x="{LEFT}" y="{base}">{instant(points[0][0])}</text>'
    if len(points) > 1:
        ends += f'<text x="{WIDTH - RIGHT}" y="{base}" text-anchor="end">{instant(points[-1][0])}</text>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="one bar for each window">'
        f"<g>{lines}</g>{''.join(drawn)}{ends}</svg>\n"
    )


def worst_of(points: Sequence[Point], bars_max: int) -> list[Point]:
    """Return at most `bars_max` points: of runs of equal length the worst each."""
    length = -(-len(points) // bars_max)
    runs = [points[at : at + length] for at in range(0, len(points), length)]
    return [min(run, key=lambda point: (-_ORDER.index(point[2]), point[1])) for run in runs]


def _floor(lowest: float) -> float:
    """Where the axis begins."""
    for floor in (0.999, 0.99, 0.9, 0.5):
        if lowest > floor + (1 - floor) * 0.1 and lowest < 1:
            return floor
    return 0.0
