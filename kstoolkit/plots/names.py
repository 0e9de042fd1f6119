"""Texts from the data, made fit to stand in a figure: short, visible, in the figure's own font."""

from __future__ import annotations

from functools import lru_cache

from matplotlib import rcParams
from matplotlib.font_manager import FontProperties, findfont, get_font

from kstoolkit.markup import plain

_LONGEST = 28


def shown(text: str, longest: int = _LONGEST) -> str:
    r"""Return a text from the data as a figure can show it.

    Unseen characters, those that turn the direction of text among them, and those that the font
    lacks are shown by their code points; a long text loses its middle.

    Parameters
    ----------
    text
        Any text.
    longest
        At most so many characters.

    Examples
    --------
    >>> shown("Anna"), shown("a\u202eb"), shown("abcdefghij", 7)
    ('Anna', 'a[U+202E]b', 'abc…hij')
    """
    # Of a very long text, only its ends are looked at.
    ends = text if len(text) <= 2 * longest else f"{text[:longest]}{text[-longest:]}"
    glyphs = _glyphs(tuple(rcParams["font.family"]))
    visible = "".join(
        char if ord(char) in glyphs else f"[U+{ord(char):04X}]" for char in plain(ends)
    )
    if visible == text and len(text) <= longest:
        return text
    if len(visible) <= longest and ends == text:
        return visible
    head = longest // 2
    return f"{visible[:head]}…{visible[head + 1 - longest :]}"


@lru_cache(maxsize=8)
def _glyphs(families: tuple[str, ...]) -> frozenset[int]:
    """Return the code points that the figure's fonts have."""
    paths = (findfont(FontProperties(family=[each])) for each in families)
    return frozenset().union(*(get_font(path).get_charmap() for path in paths))
