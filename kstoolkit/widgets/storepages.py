"""Rows of a store in pages: read as they are turned to, and kept as the texts that are shown."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kstoolkit.markup import Html, element, joined, shortened, text
from kstoolkit.stores.growth.verdict import moment_text
from kstoolkit.stores.rows.rows import value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kstoolkit.stores.rows.rows import Rows, StoreRow


Cells = dict[str, str]
"""A row as texts, by the names of its columns; what it has not is left out."""

_TIMES = ("window start, UTC", "window end, UTC", "time, UTC")
_COLUMNS = ("family", "partition", "key", *_TIMES, "value", "headers")
_RAW = ("key, raw", "value, raw")
_LONGEST_CELL, _RAW_BYTES = 120, 24


class Pages:
    """Rows in pages, of which those that were seen can be turned back to.

    Parameters
    ----------
    rows
        The rows.
    size
        How many there are on a page.

    Examples
    --------
    >>> import tempfile
    >>> import kstoolkit as kst
    >>> from rocksdict import Options, Rdict
    >>> folder = tempfile.mkdtemp()
    >>> written = Rdict(folder, Options(raw_mode=True))
    >>> for user in (b"anna", b"bo", b"cy"):
    ...     written[user] = b"seen"
    >>> written.close()
    >>> with kst.open_store(folder) as store:
    ...     pages = Pages(store.rows(), size=2)
    ...     [row["key"] for row in pages.page(1)], pages.has(2)
    (["'cy'"], False)
    """

    def __init__(self, rows: Rows, size: int) -> None:
        self.size = size
        self._batches: Any = rows.batches()  # a generator, which can be closed
        self._batch: Iterator[StoreRow] = iter(())
        self._cells: list[Cells] = []

    def page(self, number: int, is_stale: Callable[[], bool] = lambda: False) -> list[Cells]:
        """Return a page, the first one is 0; less of it, if nobody wants it any more.

        Parameters
        ----------
        number
            Which.
        is_stale
            Says whether it is still wanted; asked between some thousands of rows.

        Raises
        ------
        KstoolkitError
            If rows can't be read; those before them stay.
        """
        # One row more than is shown tells whether there is another page.
        while len(self._cells) <= (number + 1) * self.size and not is_stale():
            found = [_cells(each) for each in islice(self._batch, self.size)]
            self._cells += found
            if not found and not self._comes_another_batch():
                break
        return self.read(number)

    def read(self, number: int) -> list[Cells]:
        """Return what was read of a page by now."""
        return self._cells[number * self.size : (number + 1) * self.size]

    def has(self, number: int) -> bool:
        """Return whether there is such a page, as far as was read."""
        return len(self._cells) > number * self.size

    def close(self) -> None:
        """Read no more: what the rows hold of the store is let go."""
        self._batches.close()

    def _comes_another_batch(self) -> bool:
        batch = next(self._batches, None)
        self._batch = iter(()) if batch is None else iter(batch)
        return batch is not None


def page_html(rows: Sequence[Cells], note: str, *, raw: bool) -> Html:
    """Return rows as a table, with the columns that one of them has.

    Parameters
    ----------
    rows
        The rows.
    note
        Which they are.
    raw
        Whether to show the bytes of keys and values, too.

    Examples
    --------
    >>> page_html([{"key": "'<b>'", "value": "7"}], "1 row", raw=False)[-89:]
    '<td><bdi>&#x27;&lt;b&gt;&#x27;</bdi></td><td><bdi>7</bdi></td></tr></tbody></table></div>'
    """
    shown = (*_COLUMNS, *(_RAW if raw else ()), "problem")
    names = [name for name in shown if any(name in row for row in rows)]
    head = element("tr", *(element("th", name, scope="col") for name in names))
    body = [
        element("tr", *(element("td", element("bdi", row.get(name, ""))) for name in names))
        for row in rows
    ]
    caption = element("caption", text(note))
    table = element("table", caption, element("thead", head), element("tbody", joined(*body)))
    return element("div", table, class_="kst-scrolls")


def _cells(row: StoreRow) -> Cells:
    times = (row.window_start_ms, row.window_end_ms, row.timestamp_ms)
    cells: dict[str, str | None] = {
        "family": getattr(row, "family", None),
        "partition": _number(getattr(row, "partition", None)),
        "key": value_text(row.key),
        **dict(zip(_TIMES, map(_moment, times), strict=True)),
        "value": value_text(row.value),
        "headers": None
        if row.headers is None
        else value_text([list(each) for each in row.headers]),
        "key, raw": _hex(row.key_bytes),
        "value, raw": _hex(row.value_bytes),
        "problem": row.problem,
    }
    return {
        name: shortened(value, _LONGEST_CELL) for name, value in cells.items() if value is not None
    }


def _moment(time_ms: int | None) -> str | None:
    return None if time_ms is None else moment_text(time_ms).removesuffix(" UTC")


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _hex(raw: bytes | None) -> str:
    if raw is None:
        return "none"
    first = raw[:_RAW_BYTES].hex(" ")
    return first if len(raw) <= _RAW_BYTES else f"{first} … ({len(raw):,} bytes)"
