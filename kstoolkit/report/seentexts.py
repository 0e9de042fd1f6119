"""The texts of a figure, fit for a page while it is drawn, and afterwards as they were."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from matplotlib.text import Text
from matplotlib.ticker import Formatter

from kstoolkit.markup import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure


@contextmanager
def seen_texts(figure: Figure) -> Iterator[None]:
    """Show unseen characters of a figure's texts by their code points meanwhile.

    No XML holds control characters, no UTF-8 a lone surrogate, and a mark that turns the direction
    of text would turn more than its own.
    """
    with ExitStack() as restoring:
        for text in figure.findobj(Text):
            told = text.get_text()
            if _visible(told) != told:
                text.set_text(_visible(told))
                restoring.callback(text.set_text, told)
        for ticker in _tickers(figure):
            restoring.callback(setattr, ticker, "formatter", ticker.formatter)
            ticker.formatter = _Seen(ticker.formatter)
        yield


class _Seen(Formatter):
    """What another formatter prints, in visible characters: ticks get their texts at the end."""

    def __init__(self, inner: Formatter) -> None:
        self.inner = inner
        self.axis = inner.axis

    def __call__(self, x: float, pos: int | None = None) -> str:
        return _visible(self.inner(x, pos))

    def format_ticks(self, values: list[float]) -> list[str]:
        return list(map(_visible, self.inner.format_ticks(values)))

    def get_offset(self) -> str:
        return _visible(self.inner.get_offset())

    def set_locs(self, locs: Any) -> None:
        self.inner.set_locs(locs)


def _tickers(figure: Figure) -> Iterator[Any]:
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis, getattr(ax, "zaxis", None)):
            yield from () if axis is None else (axis.major, axis.minor)


def _visible(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))
