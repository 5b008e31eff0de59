"""Grouped bars as SVG: one group for each row, one bar for each server in it."""

import math
from html import escape

from .tables import number

COLOURS = {"millrace": "#1b6ca8", "minio": "#c43d3d", "versitygw": "#e39b2d", "garage": "#5a9e4b", "mhd_empty": "#8a8a8a", "bare": "#c4c4c4"}
BAR, GAP, HEIGHT, LEFT, TOP, BOTTOM = 34, 26, 220, 70, 56, 44
FONT = 'font-family="sans-serif"'


def text(x, y, what, size=11, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" {FONT} font-size="{size}" text-anchor="{anchor}" fill="#333">{escape(what)}</text>'


def round_top(most):
    """A number with round quarters that is no less."""
    unit = 10 ** math.floor(math.log10(most))
    return next(step * unit for step in (1, 2, 4, 6, 8, 10) if step * unit >= most)


def grid(most, width):
    """Lines at quarters of the whole height."""
    parts = []
    for quarter in range(5):
        y = TOP + HEIGHT - HEIGHT * quarter / 4
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{width - 10}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text(LEFT - 6, y + 4, number(most * quarter / 4), anchor="end"))
    return parts


def legend(names):
    parts, x = [], LEFT
    for key, name in names.items():
        parts.append(f'<rect x="{x}" y="30" width="11" height="11" fill="{COLOURS[key]}"/>')
        parts.append(text(x + 16, 40, name, anchor="start"))
        x += 30 + 7 * len(name)
    return parts, x


def bars(title, names, groups):
    """names: what a server's key is called. groups: (label, {server key: value}); what is None has no bar. An SVG document, or None
    where there is nothing to draw."""
    names = {key: name for key, name in names.items() if any(values.get(key) is not None for _, values in groups)}
    groups = [(label, values) for label, values in groups if any(values.get(key) is not None for key in names)]
    if not groups:
        return None
    most = round_top(max(v for _, values in groups for v in values.values() if v is not None) or 1)
    keys, wide = legend(names)
    group_width = max(BAR * len(names), 7 * max(len(label) for label, _ in groups)) + GAP
    width = max(LEFT + group_width * len(groups) + 20, wide + 10)
    parts = [text(LEFT, 18, title, 14, "start"), *keys, *grid(most, width)]
    for number_of, (label, values) in enumerate(groups):
        left = LEFT + GAP / 2 + number_of * group_width
        for at, key in enumerate(names):
            value = values.get(key)
            if value is None:
                continue
            tall = HEIGHT * value / most
            x, y = left + at * BAR, TOP + HEIGHT - tall
            parts.append(f'<rect x="{x + 2:.1f}" y="{y:.1f}" width="{BAR - 4}" height="{tall:.1f}" fill="{COLOURS[key]}"/>')
            parts.append(text(x + BAR / 2, y - 3, number(value), 8))
        parts.append(text(left + BAR * len(names) / 2, TOP + HEIGHT + 18, label))
    tall = TOP + HEIGHT + BOTTOM
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{tall}" viewBox="0 0 {width:.0f} {tall}">',
                      f'<rect width="{width:.0f}" height="{tall}" fill="#fff"/>', *parts, "</svg>"]) + "\n"
