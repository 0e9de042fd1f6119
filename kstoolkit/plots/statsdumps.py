"""RocksDB's dumps of its statistics: levels over time, and any other figure that they hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import days, in_time, label, new_axes, nothing
from kstoolkit.plots.figurenames import capital, print_axis, printed, unit_of, words_of
from kstoolkit.plots.lines import draw_lines
from kstoolkit.plots.memory import draw_memory
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, wrapped
from kstoolkit.plots.stacked import Bar, StackedPart
from kstoolkit.records import Records, counted
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from kstoolkit.rocksdb.log.stats import LevelStats, StatsDump


_OF_LEVELS = ("size_bytes", "num_files", "compaction_s", "num_compactions", "write_amplification")
_OF_STORE = (
    "stalled_s",
    "stalled_percent",
    "interval_stalled_s",
    "interval_stalled_percent",
    "pending_compaction_bytes",
)
_SUMS = {"Sum", "Int"}


def plot_dumps(
    dumps: Records[StatsDump], *, figure: str = "size_bytes", ax: Axes | None = None
) -> Axes:
    """Return a plot of a figure over time, as the dumps of statistics in a log tell it.

    In a log of several stores, those of the one with the most dumps are drawn.

    Parameters
    ----------
    dumps
        As ``log.stats()`` gives them.
    figure
        Of each level: ``"size_bytes"``, ``"num_files"``, ``"compaction_s"``, ``"num_compactions"``,
        ``"write_amplification"``. Of the store: ``"stalled_s"``, ``"stalled_percent"``, the same
        with ``interval_`` before it, ``"pending_compaction_bytes"``. Or one of RocksDB's counters,
        if the writer kept them: ``"rocksdb.stall.micros"``.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If there is no such figure.
    """
    _check_figure(figure, dumps)
    kept, notes = _of_one_store([each for each in dumps if each.at is not None])
    if len(kept) < len(dumps) and not notes:
        notes = [f"{counted(len(dumps) - len(kept), 'dumps')} without a time: not drawn"]
    series: dict[str, list[tuple[float, float]]] = {}
    for each in kept:
        at = float(days([round(each.at.timestamp() * 1e3) if each.at else 0])[0])
        for name, value in _values(each, figure).items():
            series.setdefault(name, []).append((at, value))
    ax = new_axes(ax)
    if not series:
        nothing(ax, f"{words_of(figure)}: unknown")
        head(ax, f"{capital(words_of(figure))}: unknown (no dump holds it)")
        return ax
    notes += draw_lines(ax, dict(sorted(series.items())))
    ax.set_ylim(bottom=0)
    in_time(ax.xaxis)
    print_axis(ax.yaxis, figure)
    unit = unit_of(figure)
    words = f"{words_of(figure)}, {unit}" if unit in {"s", "%"} else words_of(figure)
    label(ax, x="time of the dump, UTC", y=shown(words), notes=wrapped(notes))
    head(ax, f"{_last(series, figure)}; {counted(len(kept), 'dumps of statistics')}")
    return ax


def plot_dump(dump: StatsDump, *, ax: Axes | None = None) -> Axes:
    """Return a plot of the levels that one dump tells of."""
    return plot_level_stats(dump.levels, ax=ax)


def plot_level_stats(levels: Records[LevelStats], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the levels in a dump of statistics: bytes now, and write amplification.

    Examples
    --------
    >>> plot_level_stats(Records([], "levels")).get_title(loc="left")
    'No levels in this dump'
    """
    held = [each for each in levels if each.level not in _SUMS]
    if not held:
        ax = new_axes(ax)
        nothing(ax, "no levels")
        head(ax, "No levels in this dump")
        return ax
    several = len({each.column_family for each in held}) > 1
    bars = [
        Bar(
            f"{shown(each.column_family, 20)} {each.level}" if several else each.level,
            (StackedPart("size", each.size_bytes, each.unknown.get("size_bytes", "")),),
            _beside(each),
        )
        for each in held
    ]
    total = sum(each.size_bytes or 0 for each in held)
    ratios = {
        each.column_family: each.write_amplification for each in levels if each.level == "Sum"
    }
    known = {family: ratio for family, ratio in ratios.items() if ratio is not None}
    highest = max(known, key=lambda family: known[family], default=None)
    whose = f" of {shown(highest)}" if highest is not None and several else ""
    ratio = "" if highest is None else f"{known[highest]:.1f}"
    amplified = f"; write amplification{whose} since the opening {ratio}" if ratio else ""
    return draw_memory(ax, bars, f"Levels hold {format_bytes(total)}{amplified}", [], "SST files")


def _beside(level: LevelStats) -> str:
    files = "" if level.num_files is None else f", {counted(level.num_files, 'files')}"
    ratio = level.write_amplification
    return files + ("" if ratio is None else f", write amplification {ratio:.1f}")


def _check_figure(figure: str, dumps: Sequence[StatsDump]) -> None:
    tickers = {name for each in dumps for name in each.tickers}
    if figure not in {*_OF_LEVELS, *_OF_STORE, *tickers}:
        message = f"No dump holds {figure!r}."
        kept = f"; or one of {len(tickers)} counters, such as {min(tickers)}" if tickers else ""
        hint = f"There are {', '.join((*_OF_LEVELS, *_OF_STORE))}{kept}."
        raise ConfigurationError(message, hint=hint)


def _of_one_store(dumps: list[StatsDump]) -> tuple[list[StatsDump], list[str]]:
    stores = Counter(each.store for each in dumps)
    if len(stores) <= 1:
        return dumps, []
    store, _ = stores.most_common(1)[0]
    notes = [f"one of {len(stores)} stores: {shown(store or 'unnamed', 60)}"]
    return [each for each in dumps if each.store == store], notes


def _values(dump: StatsDump, figure: str) -> dict[str, float]:
    """Return the figure by the name of its line: of each level, or of the store."""
    if figure in dump.tickers:
        return {figure: dump.tickers[figure]}
    if figure == "pending_compaction_bytes":
        return {shown(family): size for family, size in dump.pending_compaction_bytes.items()}
    if figure in _OF_STORE:
        value = getattr(dump, figure)
        return {} if value is None else {words_of(figure): value}
    rows = [each for each in dump.levels if each.level not in _SUMS]
    if figure == "write_amplification" and len({each.column_family for each in rows}) > 1:
        return _known(
            (f"{each.column_family} {each.level}", each.write_amplification) for each in rows
        )
    return _known((each.level, getattr(each, figure)) for each in rows)


def _known(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Return sums by name; what is unknown is left out."""
    sums: Counter[str] = Counter()
    for name, value in values:
        if value is not None:
            sums[name] += value  # type: ignore[assignment] # a float, too
    return dict(sums)


def _last(series: dict[str, list[tuple[float, float]]], figure: str) -> str:
    """Say what the figure was at last: of all lines together, or of the highest one."""
    ends = {name: points[-1][1] for name, points in series.items()}
    if unit_of(figure) == "times" or len(ends) == 1:
        name = max(ends, key=lambda each: ends[each])
        whose = f" of {name}" if len(ends) > 1 else ""
        return f"{capital(words_of(figure))}{whose} was {printed(figure, ends[name])} at last"
    total = printed(figure, sum(ends.values()))
    return f"{capital(words_of(figure))} came to {total} at last, on {counted(len(ends), 'levels')}"
