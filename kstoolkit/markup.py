"""HTML that is escaped by default: a text becomes markup only through :func:`element`.

Text from the data may hold anything. What would be invisible, or would turn the direction of the
text around it, is shown by its code point; what is very long loses its middle, and says so.
"""

from __future__ import annotations

import html
import unicodedata

_LONGEST_SENTENCE = 600
_VOID = frozenset({"br", "hr", "img", "link", "meta", "source"})
_JOINERS = "\u200c\u200d"
"""Persian words and joined emoji need these two invisible characters."""
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Controls, formats (bidi among them), unassigned, private, surrogates, line separators."""


class Html(str):
    """Markup that is safe as it stands."""

    __slots__ = ()


def shortened(value: str, limit: int) -> str:
    """Return ``value``, without its middle if it is longer than ``limit`` characters.

    What would be longer than what it stands for is left.

    >>> shortened("a" * 50, 4), shortened("abcdefghijkl", 4)
    ('aa […46 characters left out…] aa', 'abcdefghijkl')
    """
    head = limit - limit // 2
    said = f" […{len(value) - limit:,} characters left out…] "
    if len(value) <= limit + len(said):
        return value
    return f"{value[:head]}{said}{value[len(value) - limit // 2 :]}"


def plain(value: str) -> str:
    r"""Return ``value`` with unseen characters as their code points, for attributes.

    >>> plain("a\x00b\u202ec")
    'a[U+0000]b[U+202E]c'
    """
    return "".join(f"[{_code(char)}]" if _is_unseen(char) else char for char in value)


def text(value: str, *, keep: str = "") -> Html:
    r"""Return ``value`` as HTML text: escaped, unseen characters as marked code points.

    ``keep`` are such as pass, as line breaks inside ``pre``.

    >>> text("<b>\x07")
    '&lt;b&gt;<span class="code">U+0007</span>'
    """
    if isinstance(value, Html):
        return value
    return Html(
        "".join(
            f'<span class="code">{_code(char)}</span>'
            if _is_unseen(char) and char not in keep
            else html.escape(char)
            for char in value
        )
    )


def isolated(value: str, limit: int = 100) -> Html:
    """Return a name from the data, shortened, that can't turn the text around it.

    >>> isolated("Anna & Co")
    '<bdi>Anna &amp; Co</bdi>'
    """
    return Html(f"<bdi>{text(shortened(value, limit))}</bdi>")


def sentence(value: str, *names: str) -> Html:
    """Return a sentence with the first of each of the ``names`` in it isolated, in their order.

    >>> sentence("Anna did open 412 times.", "Anna", "open")
    '<bdi>Anna</bdi> did <bdi>open</bdi> 412 times.'
    """
    parts: list[Html] = []
    for name in names:
        before, found, after = value.partition(name) if name else (value, "", "")
        if found:
            parts += [text(shortened(before, _LONGEST_SENTENCE)), isolated(name)]
            value = after
    return joined(*parts, text(shortened(value, _LONGEST_SENTENCE)))


def joined(*parts: str) -> Html:
    """Return the parts one after the other, escaping those that are no markup yet.

    >>> joined("a < ", Html("<b>b</b>"))
    'a &lt; <b>b</b>'
    """
    return Html("".join(text(part) for part in parts))


def element(tag: str, /, *children: str, **attributes: str | int) -> Html:
    """Return an HTML element; children that are no markup yet are escaped.

    ``class_`` is ``class``; another underscore is a hyphen, as in ``aria_label``.

    >>> element("p", "1 < 2", class_="lead")
    '<p class="lead">1 &lt; 2</p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(plain(str(value)))}"'
        for key, value in attributes.items()
    )
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(*children)}</{tag}>")


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN and char not in _JOINERS


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"
