"""Rows of a store in pages, as they are wanted: what is open, how it is read, what was read of it.

They are read beside the kernel's thread, as they are turned to, and kept as what is shown of them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.formats.serdes import SERDE_NAMES
from kstoolkit.markup import plain, shortened
from kstoolkit.records import counted
from kstoolkit.stores.rows.asking import typed_key
from kstoolkit.stores.rows.readable import Estimating
from kstoolkit.units import format_count, format_share
from kstoolkit.views.parts import Part, field, form
from kstoolkit.views.stores import ShownRow, shown_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.readable import Rows
    from kstoolkit.stores.rows.rows import StoreRow
    from kstoolkit.stores.rows.segmentedstore import SegmentedStore
    from kstoolkit.stores.spark.sparkstore import SparkStore

PAGE_ROWS = 200
_MOST_SEGMENTS = 50
_NAMED = 3  # how many of the parts that are left out are named
_LONGEST_NAME = 40
_AS_TOLD = "as it seems"
_SERDES = (*SERDE_NAMES, "time-windowed(string)", "session-windowed(string)")
_FIELDS = ("key_serde", "value_serde", "window_size", "version", "family")
_OPENING = ("path", "version", "window_size", "family")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of which store are wanted, by the key as it is typed, and how to read them."""

    path: str
    key_serde: str | None = None
    value_serde: str | None = None
    window_size: str | None = None
    version: int | None = None
    family: str | None = None
    sought: str = ""
    is_prefix: bool = False

    @property
    def opening(self) -> tuple[Any, ...]:
        """What the store has to be opened anew for."""
        return tuple(getattr(self, name) for name in _OPENING)

    def form(self, store: OpenedStore | None) -> Part:
        """Return the fields that say it, with what there is to choose from."""
        told = [
            _choice("key_serde", "Keys as", self.key_serde, store),
            _choice("value_serde", "Values as", self.value_serde, store),
            field("window_size", "Window size", self.window_size or "", hint="like 1 minute")
            | {"hidden": _is_of_spark(store)},
            _choice("version", "Version", self.version, store, "latest"),
            _choice("family", "Family", self.family, store),
            field("sought", "Search a key", self.sought, hint="a key, or 0x…"),
            field("is_prefix", "Keys that begin so", self.is_prefix, type="tick"),
        ]
        return form("Which rows, and how to read them", *told)


def check_choices(told: dict[str, Any], store: OpenedStore | None) -> None:
    """Refuse what is no choice of how a store is read."""
    for name, value in told.items():
        if name not in _FIELDS:
            message = f"Nothing is called {name!r} here."
            raise ConfigurationError(message, hint=f"There are {', '.join(_FIELDS)}.")
        offered = [each for each, _ in _choices(name, store)]
        if value is not None and name != "window_size" and value not in offered:
            message = f"{name}={value!r:.80} is none of the choices."
            listed = ", ".join(repr(each) for each in offered[:20])
            raise ConfigurationError(message, hint=f"There are {listed}.")


def _is_of_spark(store: Any) -> TypeGuard[SparkStore]:
    from kstoolkit.stores.spark.sparkstore import SparkStore  # noqa: PLC0415 - appears sooner

    return isinstance(store, SparkStore)


def _is_in_segments(store: Any) -> TypeGuard[SegmentedStore]:
    from kstoolkit.stores.rows.segmentedstore import SegmentedStore  # noqa: PLC0415 - as above

    return isinstance(store, SegmentedStore)


def _choices(name: str, store: OpenedStore | None) -> list[tuple[Any, str]]:
    if name in {"key_serde", "value_serde"}:
        return [(each, each) for each in _SERDES]
    if name == "version":
        versions = store.versions if _is_of_spark(store) else []
        return [(each, str(each)) for each in reversed(versions)]
    names = [] if store is None or name != "family" else _families(store)
    return [(each, shortened(plain(each), _LONGEST_NAME)) for each in names]


def _choice(
    name: str, label: str, value: Any, store: OpenedStore | None, none: str = _AS_TOLD
) -> Part:
    choices = _choices(name, store)
    options = [(None, none), *choices]
    return field(name, label, value, type="choice", options=options, hidden=len(choices) < 2)  # noqa: PLR2004 - one is no choice


def _families(store: OpenedStore) -> list[str]:
    if _is_of_spark(store):
        return list(store.families)
    if _is_in_segments(store):
        return list(store.segments.largest()[1].column_families)
    return list(getattr(store, "column_families", ()))


class Pages:
    """Rows in pages, of which those that were seen can be turned back to."""

    def __init__(self, rows: Rows) -> None:
        self._batches: Any = rows.batches()  # a generator, which can be closed
        self._batch: Iterator[StoreRow] = iter(())
        self._shown: list[ShownRow] = []

    def come_to(self, number: int, is_stale: Callable[[], bool]) -> None:
        """Read up to a page, the first one is 0; less of it, if nobody wants it any more."""
        # One row more than is shown tells whether there is another page.
        while not self.has(number + 1) and not is_stale():
            found = [shown_row(each) for each in islice(self._batch, PAGE_ROWS)]
            self._shown += found
            if not found:
                batch = next(self._batches, None)
                if batch is None:
                    break
                self._batch = iter(batch)

    def read(self, number: int) -> list[ShownRow]:
        """Return the rows of a page that was come to."""
        return self._shown[number * PAGE_ROWS : (number + 1) * PAGE_ROWS]

    def has(self, number: int) -> bool:
        """Return whether there is such a page, as far as was read."""
        return len(self._shown) > number * PAGE_ROWS

    def close(self) -> None:
        """Read no more: what the rows hold of the store is let go."""
        self._batches.close()


class Reading:
    """A store that is read in pages; it is one thread's at a time."""

    def __init__(self, given: OpenedStore | None) -> None:
        self.store: OpenedStore | None = None
        self.wanted: Wanted | None = None
        self.pages: Pages | None = None
        self._given = given
        self._held = ExitStack()

    def begin(self, wanted: Wanted) -> Pages:
        """Return the rows that are wanted: the store is opened if it is not yet, or otherwise."""
        if self.pages is not None and self.wanted == wanted:
            return self.pages
        store = self.opened(wanted)
        asked: dict[str, Any] = {"key_serde": wanted.key_serde, "value_serde": wanted.value_serde}
        asked |= _sought(wanted, store) if wanted.sought else {}
        self.pages = Pages(store.rows(**asked))
        return self.pages

    def opened(self, wanted: Wanted) -> OpenedStore:
        """Return the store, open as it is wanted; the rows that were read before are let go."""
        self._let_rows_go()
        if self.store is None or self.wanted is None or self.wanted.opening != wanted.opening:
            self.close()
            self.store = self._opened(wanted)
        self.wanted = wanted
        return self.store

    def opened_anew(self, wanted: Wanted, held: ExitStack) -> OpenedStore:
        """Return a store once more, as it is wanted, beside the one that is read."""
        from kstoolkit.stores.opening import open_store  # noqa: PLC0415 - as above

        given = self._given if self._is_given(wanted) else None
        told = {} if given is None else _told(given)
        now = {"window_size": wanted.window_size, "column_family": wanted.family}
        told |= {name: value for name, value in now.items() if value is not None}
        store = open_store(wanted.path, **told)
        held.enter_context(store)
        version = given.version if _is_of_spark(given) else None
        version = version if wanted.version is None else wanted.version
        return store if version is None else held.enter_context(_at(store, version))

    def left_out(self) -> str:
        """Say what of the store is not among the rows, as far as it has come to light."""
        parts = [*getattr(self.store, "left_out", ())]
        told = " ".join(f"{each.path.name}: {each.why.rstrip('.')}." for each in parts[:_NAMED])
        more = f" And {len(parts) - _NAMED} more." if len(parts) > _NAMED else ""
        return f"{counted(len(parts), 'parts')} left out. {told}{more}" if parts else ""

    def close(self) -> None:
        """Close the store, unless somebody else opened it; a second time does nothing."""
        self._let_rows_go()
        self.store = self.wanted = None
        self._held.close()

    def _opened(self, wanted: Wanted) -> OpenedStore:
        """Return a store open as it is wanted; the one that was given, if that is so."""
        given = self._given if self._is_given(wanted) else None
        if given is None or wanted.window_size or wanted.family:
            return self.opened_anew(wanted, self._held)
        if wanted.version is None:
            return given
        return self._held.enter_context(_at(given, wanted.version))

    def _is_given(self, wanted: Wanted) -> bool:
        return self._given is not None and str(self._given.path) == wanted.path

    def _let_rows_go(self) -> None:
        if self.pages is not None:
            self.pages.close()
            self.pages = None


def _at(store: OpenedStore, version: int) -> SparkStore:
    if _is_of_spark(store):
        return store.at(version)
    message = f"There is no version {version} of {store.path}."
    raise ConfigurationError(message, hint="Only Spark's checkpoints keep several.")


def _told(given: OpenedStore) -> dict[str, Any]:
    """Return how a store was told to be read, for opening it once more."""
    told = given.read_as
    alike = ("kind", "key_serde", "value_serde", "column_family")
    named = {name: getattr(told, name) for name in alike} | {"window_size": told.window_size_ms}
    return {name: value for name, value in named.items() if value is not None}


def _sought(wanted: Wanted, store: OpenedStore) -> dict[str, Any]:
    serde = wanted.key_serde or store.key_serde
    in_bytes = getattr(serde, "name", serde) == "bytes"
    in_columns = _is_of_spark(store) and not (in_bytes or wanted.is_prefix)
    key = typed_key(wanted.sought, in_columns=in_columns)
    is_text = in_bytes and isinstance(key, str)
    return {"prefix" if wanted.is_prefix else "key": key.encode() if is_text else key}


def told_of_reading(store: OpenedStore) -> list[tuple[str, str]]:
    """Return how rows of a store are read, why so, and about how many there are."""
    told = store.read_as
    keys, values = (
        "as it was told" if serde is not None else _guessed(store, number)
        for number, serde in enumerate((told.key_serde, told.value_serde))
    )
    return [
        ("keys read as", f"{store.key_serde.name}, {keys}"),
        ("values read as", f"{store.value_serde.name}, {values}"),
        ("rows", _rows(store)),
    ]


def _guessed(store: Any, number: int) -> str:
    if _is_of_spark(store):
        return "by the schema in the checkpoint"
    if store.kind == "window" and not hasattr(store, "recognised"):
        return "as kstoolkit writes them"
    guess = store.guesses[number]
    return f"a guess, {format_share(guess.confidence)} sure: {'; '.join(guess.reasons)}"


def _rows(store: OpenedStore) -> str:
    if _is_in_segments(store) and len(store.segments) > _MOST_SEGMENTS:
        return "not estimated: each segment would have to be opened"
    source = store.source
    if _is_of_spark(store):
        return str(store.count())
    estimate = source.estimated_rows() if isinstance(source, Estimating) else None
    if estimate is None:
        return "unknown (nothing estimates them)"
    return f"about {format_count(estimate)}, by RocksDB's estimate"


class StoppedError(KstoolkitError):
    """Nobody wants the rows any more."""


class StoppableSource:
    """A source of rows that asks, between some thousands of them, whether to end."""

    def __init__(self, whole: Any, is_stopped: Callable[[], bool]) -> None:
        self._whole, self._is_stopped = whole, is_stopped

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield what the whole source does, until nobody wants any more."""
        for rows in self._whole.read(asked):
            if self._is_stopped():
                message = f"{self._whole.name} is not read any further."
                raise StoppedError(message)
            yield rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)
