"""Records that people look at: as text, HTML, a table, a plot; each figure says whose it is.

Figures of a cache, a memtable, a stall or a compaction describe the process that opened the store,
not the application that wrote it. A figure without its source would be misread, so each field of a
record names one, and every way to show a record shows it too, or why the figure is unknown.

A record doesn't know how it is drawn: :mod:`kstoolkit.plots` knows the records, never the other way
round. :meth:`Viewed.plot` is the one place that reaches forward, and only when somebody asks, so
that reading a record loads no plotting library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import date, timedelta
from enum import Enum, StrEnum
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from kstoolkit.moments import moment_of
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd
    from matplotlib.axes import Axes


class Viewed:
    """A record, or several, that can be drawn."""

    __slots__ = ()

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Return a plot of this.

        Parameters
        ----------
        ax
            Where to draw; by default the only Axes of a new figure of pyplot's, which a notebook
            shows by itself.
        options
            What the function in :mod:`kstoolkit.plots` that draws this takes beside; its name is in
            the error for one that it doesn't take.

        Raises
        ------
        ConfigurationError
            If there is no such option, or nothing of this kind can be drawn.
        """
        from kstoolkit.plots.drawing import draw  # noqa: PLC0415 - draws: only when asked

        return draw(self, ax, **options)


class Closing:
    """What holds something until it is closed; ``with`` closes it."""

    __slots__ = ()

    def close(self) -> None:
        """Let go of it; a second time does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Source(StrEnum):
    """Whose a figure is.

    ``GIVEN`` are figures that whoever asks gave; ``PROFILE`` options as a profile says them, which
    no store needs to have; ``OPTIONS`` those that a store was last opened with.
    """

    STORE = "store on disk"
    OPENER = "this opener"
    LOG = "the writer's log"
    METRICS = "the writer's metrics"
    OPTIONS = "the OPTIONS file"
    PROFILE = "the profile"
    GIVEN = "given"
    FORMULA = "formula"
    SYSTEM = "the operating system"


MOMENTS = {"start_ms", "end_ms", "oldest_ms", "newest_ms", "now_ms", "stream_time_ms"}
MOMENTS |= {"watermark_ms", "kept_from_ms"}

_WHOLE_FROM = 1_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its name, its value, whose it is, and why it is unknown if it is.

    Examples
    --------
    >>> print(Figure("size_bytes", 3 << 20, Source.STORE))
    size_bytes: 3.0 MiB (store on disk)
    >>> print(Figure("stalls", None, Source.LOG, "its level is ERROR"))
    stalls: unknown (its level is ERROR)
    >>> print(Figure("start_ms", 1_700_005_380_000, Source.STORE))
    start_ms: 2023-11-14 23:43:00 UTC (store on disk)
    """

    name: str
    value: Any
    source: Source
    why_unknown: str | None = None

    @property
    def text(self) -> str:
        """The value for people: sizes in units, moments in UTC, ``unknown (why)`` if none."""
        if self.value is None:
            return f"unknown ({self.why_unknown or 'not told'})"
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            if self.name.endswith("_bytes"):
                return format_bytes(self.value)
            is_moment = self.name.rpartition(".")[2] in MOMENTS or self.name.endswith("_at_ms")
            return _moment(self.value) if is_moment else format_count(self.value)
        if isinstance(self.value, float):
            is_large = abs(self.value) >= _WHOLE_FROM
            return format_count(self.value) if is_large else f"{self.value:.4g}"
        return str(self.value)

    def __str__(self) -> str:
        whose = "" if self.value is None else f" ({self.source})"
        return f"{self.name}: {self.text}{whose}"


def counted(number: int, kind: str) -> str:
    """Return how many there are of a kind, which is given in the plural.

    >>> counted(1, "SST files"), counted(1, "flushes"), counted(1, "pieces of advice")
    ('1 SST file', '1 flush', '1 piece of advice')
    >>> counted(0, "entries"), counted(1, "entries"), counted(1, "caches"), counted(1, "batches")
    ('0 entries', '1 entry', '1 cache', '1 batch')
    """
    return f"{format_count(number)} {_single(kind) if number == 1 else kind}"


def _single(kind: str) -> str:
    what, of, rest = kind.partition(" of ")
    what, that, how = what.partition(" that ")
    if what.endswith("ies"):
        what = f"{what[:-3]}y"
    elif what.endswith(("shes", "tches", "xes", "sses")):
        what = what[:-2]
    else:
        what = what.removesuffix("s")
    return f"{what}{that}{how.replace('differ', 'differs')}{of}{rest}"


def _moment(value_ms: int) -> str:
    try:
        moment = moment_of(value_ms)
        precision = "milliseconds" if value_ms % 1000 else "seconds"
        return f"{moment.replace(tzinfo=None).isoformat(' ', precision)} UTC"
    except OverflowError:  # no date that there can be
        return f"{value_ms:,}"


def of_source(source: Source, default: Any = MISSING) -> Any:
    """Return a dataclass field whose figure is ``source``'s."""
    return field(default=default, metadata={"source": source})


class Record(Viewed):
    """A frozen dataclass of figures; each field is made by :func:`of_source`.

    A field of which nothing is known is ``None``, and the field ``unknown``, if the record has
    one, maps its name to why. Fields without a source are no figures: what the record is about.

    Examples
    --------
    >>> @dataclass(frozen=True, slots=True)
    ... class Size(Record):
    ...     path: str
    ...     disk_bytes: int | None = of_source(Source.STORE)
    ...     unknown: dict[str, str] = field(default_factory=dict)
    >>> size = Size("a", None, {"disk_bytes": "the folder is gone"})
    >>> size.figures()[0].text
    'unknown (the folder is gone)'
    >>> size.to_dict()
    {'path': 'a', 'disk_bytes': None, 'unknown': {'disk_bytes': 'the folder is gone'}}
    """

    __slots__ = ()

    def figures(self) -> list[Figure]:
        """Return the figures in the order of the fields."""
        why: Mapping[str, str] = getattr(self, "unknown", {})
        return [
            Figure(each.name, getattr(self, each.name), each.metadata["source"], why.get(each.name))
            for each in fields(self)  # type: ignore[arg-type] # subclasses are dataclasses
            if "source" in each.metadata
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are compared as plain values, as ``--json`` prints them."""
        told = (each.name for each in fields(self) if each.compare)  # type: ignore[arg-type]
        return {name: _plain(getattr(self, name)) for name in told}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a figure: ``figure``, ``value``, ``source``, ``why_unknown``."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        rows = [(f.name, f.value, str(f.source), f.why_unknown) for f in self.figures()]
        return pd.DataFrame(rows, columns=["figure", "value", "source", "why_unknown"])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(each.name)}</th><td>{escape(each.text)}</td>"
            f"<td>{escape(each.source)}</td></tr>"
            for each in self.figures()
        )
        return f"<p>{escape(repr(self))}</p><table>{rows}</table>"


_LEFT = "style='text-align:left'"  # centred, what is wider than its table would lose its begin


def facts_html(rows: Iterable[tuple[str, str]], caption: str = "") -> str:
    """Return what is so as an HTML table: what each fact is about, and the fact.

    >>> facts_html([("late", "<3")])[-63:]
    "t'>late</th><td style='text-align:left'>&lt;3</td></tr></table>"
    """
    body = "".join(
        f"<tr><th scope='row' {_LEFT}>{escape(what)}</th><td {_LEFT}>{escape(figure)}</td></tr>"
        for what, figure in rows
    )
    head = f"<caption {_LEFT}>{escape(caption)}</caption>" if caption else ""
    return f"<table>{head}{body}</table>"


def rows_html(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return rows below the names of their columns as an HTML table.

    >>> rows_html("1 user", ["user"], [["<anna>"]])[-60:]
    '/thead><tbody><tr><td>&lt;anna&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th scope='col'>{escape(each)}</th>" for each in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption {_LEFT}>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


_Row = TypeVar("_Row", bound=Record)


class Records(Viewed, Sequence[_Row], Generic[_Row]):
    """Several records of one kind, said in the plural (``"levels"``): a sequence, and a table."""

    def __init__(self, rows: Sequence[_Row], kind: str) -> None:
        self.rows = tuple(rows)
        self.kind = kind

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> Records[_Row]: ...
    def __getitem__(self, index: int | slice) -> _Row | Records[_Row]:
        if isinstance(index, slice):
            return Records(self.rows[index], self.kind)
        return self.rows[index]

    def __iter__(self) -> Iterator[_Row]:
        return iter(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each record's fields as plain values."""
        return [row.to_dict() for row in self.rows]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a record."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        return pd.DataFrame(self.to_dicts())

    def __repr__(self) -> str:
        return f"Records({counted(len(self), self.kind)})"

    def _repr_html_(self) -> str:
        return self._with_sources(self.to_pandas().to_html(escape=True, index=False))

    def _with_sources(self, table: str) -> str:
        sources = sorted({str(figure.source) for row in self.rows for figure in row.figures()})
        return f"<p>{escape(repr(self))}; source: {escape(', '.join(sources) or 'none')}</p>{table}"


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    match value:
        case Record():
            return value.to_dict()
        case Records():
            return value.to_dicts()
        case bytes():
            return value.hex()
        case date() | timedelta():
            return value.isoformat() if isinstance(value, date) else value.total_seconds()
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case Enum():
            return value.value
    return value
