"""Goodput over time as an SVG picture: one line a policy, the incident shaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.outage.provider import Incident

WIDTH, HEIGHT, MARGIN = 860, 360, 50
COLOURS = ("#0b7a3b", "#888888", "#c47f00", "#b23a48", "#3461c1", "#7a3fb0", "#111111")
_SVG = "http://www.w3.org/2000/svg"
_FONT = 'font-family="sans-serif" font-size="12"'
_ILL = 'fill="#f3dede"'
_SMOOTH = 5


def plot(curves: Mapping[str, Sequence[int]], incident: Incident) -> str:
    """The picture, as text.

    Args:
        curves: successes in each second, by policy.
        incident: what to shade.
    """
    longest = max(len(curve) for curve in curves.values())
    highest = max(max(_smooth(curve)) for curve in curves.values()) or 1.0
    left, right = (_x(moment, longest) for moment in (incident.begin, incident.end))
    tall = HEIGHT - MARGIN
    parts = [
        f'<svg xmlns="{_SVG}" viewBox="0 0 {WIDTH} {HEIGHT + 130}" {_FONT}>',
        f'<rect x="{left:.0f}" y="10" width="{right - left:.0f}" height="{tall}" {_ILL}/>',
        f'<text x="{left + 4:.0f}" y="24">{escape(incident.name)}</text>',
    ]
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{_x(second, longest):.1f},{_y(value, highest):.1f}"
            for second, value in enumerate(_smooth(curve))
        )
        width = 3 if not number else 1.3
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )
        x, y = MARGIN + (number % 2) * 400, HEIGHT + 10 + 22 * (number // 2)
        parts.append(f'<rect x="{x}" y="{y}" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{y + 7}">{escape(name)}</text>')
    parts.append(f'<text x="{WIDTH - 170}" y="{HEIGHT - 18}">seconds, 0 to {longest}</text>')
    parts.append(f'<text x="4" y="20">{highest:.0f}/s</text></svg>')
    return "\n".join(parts)


def _smooth(curve: Sequence[int]) -> list[float]:
    return [
        sum(curve[max(0, at - _SMOOTH + 1) : at + 1]) / min(_SMOOTH, at + 1)
        for at in range(len(curve))
    ]


def _x(second: float, longest: int) -> float:
    return MARGIN + (WIDTH - MARGIN - 10) * second / longest


def _y(value: float, highest: float) -> float:
    return 10 + (HEIGHT - MARGIN) * (1 - value / highest)
