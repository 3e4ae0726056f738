"""A chart of horizontal bars as SVG, for a page of documentation: readable on light and on dark ground."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, ROW, TOP, LEFT, RIGHT = 760, 26, 46, 170, 90
_STYLE = "text{font:13px system-ui,sans-serif;fill:#667085}.title{font-weight:600;font-size:15px}.value{font-size:12px}"


class Bar(NamedTuple):
    """One row: a median, and how far the rounds lay apart."""

    name: str
    value: float
    least: float
    most: float
    ours: bool = False


def chart(title: str, unit: str, bars: Sequence[Bar], *, logarithmic: bool = False) -> str:
    """The bars in the order given; a thin line over each is the range of its rounds.

    Raises:
        ValueError: there is no bar, or a value that a logarithm does not have.
    """
    if not bars:
        raise ValueError("a chart without bars")
    place = _scale(bars, logarithmic=logarithmic)
    height = TOP + ROW * len(bars) + 12
    note = f"{unit}, logarithmic" if logarithmic else unit
    rows = [line for number, bar in enumerate(bars) for line in _row(bar, TOP + number * ROW, place(bar.value), place)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<text class="title" x="8" y="22">{escape(title)} ({escape(note)})</text>',
            *rows,
            "</svg>\n",
        ]
    )


def _row(bar: Bar, y: int, end: float, place: _Place) -> list[str]:
    colour = "#1570ef" if bar.ours else "#98a2b3"
    middle = y + ROW / 2 - 3
    least, most = place(bar.least), place(bar.most)
    return [
        f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(bar.name)}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{ROW - 6}" rx="2" fill="{colour}"/>',
        f'<line x1="{least:.1f}" y1="{middle}" x2="{most:.1f}" y2="{middle}" stroke="#344054" stroke-width="2"/>',
        f'<text class="value" x="{max(end, most) + 6:.1f}" y="{y + 14}">{_short(bar.value)}</text>',
    ]


class _Place:
    """Where on the page a value lies."""

    def __init__(self, zero: float, full: float, *, logarithmic: bool) -> None:
        self._zero, self._full, self._logarithmic = zero, full, logarithmic

    def __call__(self, value: float) -> float:
        if self._logarithmic:
            share = math.log(max(value, self._zero) / self._zero) / math.log(self._full / self._zero)
        else:
            share = value / self._full
        return LEFT + share * (WIDTH - LEFT - RIGHT)


def _scale(bars: Sequence[Bar], *, logarithmic: bool) -> _Place:
    full = max(bar.most for bar in bars)
    least = min(bar.value for bar in bars)
    if logarithmic and least <= 0:
        raise ValueError(f"no logarithm of {least}")
    zero = 10 ** math.floor(math.log10(least) - 0.01) if logarithmic else 0.0
    return _Place(zero, full, logarithmic=logarithmic)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
