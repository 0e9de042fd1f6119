"""The plots' colours on a page: a style sheet's variable each, for a light and a dark ground.

Those that the style sheet has by name were chosen by eye; any other colour of the palette is mixed
with black or white until it stands out from the ground by 3 to 1, which is what WCAG 2.2 asks of
graphics (https://www.w3.org/TR/WCAG22/#non-text-contrast).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from kstoolkit.plots import palette

if TYPE_CHECKING:
    from collections.abc import Iterator


_LIGHT, _DARK = "#ffffff", "#14171b"
_CONTRAST = 3.0
_STEPS = 20
_HEX = re.compile(r"#[0-9a-f]{6}")
_CHOSEN = {"COUNTED", "EXPECTED", "FLAGGED"}
_IN_THE_DARK = {"#56b4e9": "#b5e3fb"}
"""Where another colour's value for the dark would be the same."""


@cache
def variables() -> dict[str, str]:
    """Return what stands for each colour of the palette on a page.

    Examples
    --------
    >>> variables()[palette.COUNTED], variables()[palette.INK]
    ('var(--counted)', 'currentColor')
    """
    named = {color: f"var(--{_variable(name, color)})" for name, color in _palette()}
    return named | {palette.INK: "currentColor"}


@cache
def color_rules() -> str:
    """Return the style sheet's rules for the colours that it has no values of by name."""
    others = {color: _variable(name, color) for name, color in _palette() if name not in _CHOSEN}
    light = "".join(f" --{name}: {_beside(color, _LIGHT)};" for color, name in others.items())
    dark = "".join(
        f" --{name}: {_IN_THE_DARK.get(color) or _beside(color, _DARK)};"
        for color, name in others.items()
    )
    if not others:
        return ""
    screen = "@media screen and (prefers-color-scheme: dark)"
    return f":root {{{light} }}\n{screen} {{ :root {{{dark} }} }}\n"


def _palette() -> Iterator[tuple[str, str]]:
    """Yield each colour of the palette once, with the first name that holds it."""
    seen = {palette.INK}
    for name, value in vars(palette).items():
        for color in _HEX.findall(repr(value).lower()) if name.isupper() else ():
            if color not in seen:
                seen.add(color)
                yield name, color


def _variable(name: str, color: str) -> str:
    return name.lower() if name in _CHOSEN else f"c{color[1:]}"


def _beside(color: str, ground: str) -> str:
    """Return the colour as it stands out from a ground."""
    toward = 0 if ground == _LIGHT else 255
    for step in range(_STEPS):
        mixed = [round(part + (toward - part) * step / _STEPS) for part in _parts(color)]
        if _contrast(mixed, _parts(ground)) >= _CONTRAST:
            break
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _parts(color: str) -> list[int]:
    return list(bytes.fromhex(color[1:]))


def _contrast(one: list[int], other: list[int]) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(parts: list[int]) -> float:
    """Return the relative luminance of sRGB (https://www.w3.org/TR/WCAG22/#dfn-relative-luminance)."""
    linear = [
        part / 255 / 12.92 if part <= 0.04045 * 255 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
