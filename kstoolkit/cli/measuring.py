"""``kstoolkit diff``, ``growth`` and ``export``: what stores are measured and written out by."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli import options, stores
from kstoolkit.cli.options import SHOWN, argument, optional, required, switch, taking
from kstoolkit.cli.stores import GivenSide, moment_given, opened_at
from kstoolkit.cli.terminal import in_flags, note, print_json, print_table, say
from kstoolkit.errors import ConfigurationError
from kstoolkit.moments import moment_text
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.stores.comparing.storediff import StoreDiff
    from kstoolkit.stores.growth.records import KeyUse, PrefixUse, WindowUse
    from kstoolkit.stores.growth.verdict import Growth
    from kstoolkit.stores.rows.counts import Counted


def _tables(found: Growth) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield what takes most, by key, by beginning of a key, by window; what there is of these."""
    if found.keys:
        by = f" by {', '.join(found.by)}" if found.by else ""
        yield [f"largest keys{by}"], _values(found.keys)
    for name, uses in found.fields.items():
        yield [f"largest {name}"], _values(uses)
    if _have_something_to_say(found):
        yield ["largest prefixes"], [[f"{each.prefix}…", *_sizes(each)] for each in found.prefixes]
    if found.windows and found.horizon.watermark_ms is not None:
        windows = [[_span(each), _PAST[each.is_past], *_sizes(each)] for each in found.windows]
        yield ["largest windows", "past the watermark"], windows
    elif found.windows:
        yield ["largest windows"], [[_span(each), *_sizes(each)] for each in found.windows]


def _values(uses: Sequence[KeyUse]) -> list[list[str]]:
    from kstoolkit.stores.rows.rows import value_text  # noqa: PLC0415 - loads Arrow

    return [[value_text(each.key), *_sizes(each)] for each in uses]


def _have_something_to_say(found: Growth) -> bool:
    """Return whether beginnings of keys are no bytes of Spark's rows, nor just the keys again."""
    is_text = found.engine != "spark" or any(each.key_raw is not None for each in found.keys)
    are_keys = len(found.keys) == len(found.prefixes)
    are_keys = are_keys and all(map(_is_key, found.keys, found.prefixes))
    return bool(found.prefixes) and is_text and not are_keys


def _is_key(key: KeyUse, prefix: PrefixUse) -> bool:
    """Return whether no other key begins as this one does."""
    return (key.key_raw or b"").startswith(prefix.prefix_raw) and key.num_rows == prefix.num_rows


_PAST = {None: "unknown", True: "yes", False: "no"}


def _span(use: WindowUse) -> str:
    start = moment_text(use.start_ms)
    return start if use.span_ms == 1 else f"{start}, {format_duration(use.span_ms)} of starts"


def _sizes(use: KeyUse | PrefixUse | WindowUse) -> list[str]:
    least = "at least " if getattr(use, "error_bytes", 0) else ""
    return [format_count(use.num_rows), f"{least}{format_bytes(use.data_bytes)}"]


_TO = required("FILE", "Where to: .parquet, .jsonl or .csv; the texts also with .gz or .zst.")
_OVERWRITE = switch("--overwrite", "Replace the file, if there is one.")


def diff(
    a: str = argument(
        "A",
        "One store, as for rows; its changelog topic, kafka://host:port/topic, which is read as "
        "the other store is; or a changelog of kstoolkit's, also a topic, or a run's output "
        "folder: then --window-size says which windows.",
    ),
    b: str | None = argument(
        "B", "The other one.  [default: A, at the second of --versions or --batches]", needed=False
    ),
    *,
    since: str | None = stores.SINCE,
    until: str | None = stores.UNTIL,
    by_value: bool = switch(
        "--by-value",
        "Compare what bytes stand for, not the bytes: a long of 3 is then a 3 in JSON.",
    ),
    key_serde: str | None = stores.KEY_SERDE,
    value_serde: str | None = stores.VALUE_SERDE,
    kind: str | None = stores.KIND,
    window_size: str | None = stores.WINDOW_SIZE,
    family: str | None = stores.FAMILY,
    store: str | None = stores.NAMED,
    versions: tuple[int, int] | None = stores.VERSIONS,
    batches: tuple[int, int] | None = stores.BATCHES,
    action: str | None = stores.ACTION,
    total: bool = stores.TOTAL,
    where: list[str] | None = stores.WHERE,
    partition: int | None = stores.PARTITION,
    kafka_config: str | None = options.KAFKA_CONFIG,
    limit: int | None = optional(
        "N", "How many differences to print.", f"{SHOWN}, and with --json or --to all", min=0
    ),
    to: str | None = optional(
        "FILE", "Write the differences to a file instead: .parquet, .jsonl or .csv, as export does."
    ),
    overwrite: bool = _OVERWRITE,
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON,
) -> None:
    """Print in which rows two stores differ.

    + is only in B, - only in A, ~ has another value in B. Rows are the same row if key and window
    are. The fields of --json: change, key, window_start_ms, window_end_ms, timestamp_ms_a,
    timestamp_ms_b, value_a, value_b, key_hex, value_hex_a, value_hex_b, and of stores with column
    families family. The numbers of rows go to stderr. Two versions of a checkpoint of Spark's are
    compared by: diff PATH --versions 3 5.
    """
    from kstoolkit.stores.comparing.comparing import diff_stores  # noqa: PLC0415 - loads Arrow

    if b is None and versions is None and batches is None:
        message = f"Only one store is given, {a}, which equals itself."
        raise ConfigurationError(message, hint="Give another, or two --versions of it.")
    told: dict[str, Any] = {"kind": kind, "window_size": window_size, "column_family": family}
    told["store"] = store
    chosen = options.where_given(where) or None
    counted: Counted = {"action": action, "total": total, "where": chosen}
    span: dict[str, Any] = {"since": moment_given(since), "until": moment_given(until)}
    side_a, side_b = (
        GivenSide(
            path, counted, kafka_config, partition, told | {"version": version, "batch": batch}
        )
        for path, version, batch in zip(
            (a, b or a), versions or (None, None), batches or (None, None), strict=True
        )
    )
    with (
        stores.both_sides(side_a, side_b) as (one, other),
        diff_stores(
            one.rows(**span),
            other.rows(**span),
            key_serde=key_serde,
            value_serde=value_serde,
            by_value=by_value,
            limit=SHOWN if limit is None and not (as_json or to) else limit,
            progress=sys.stderr.isatty(),
        ) as found,
    ):
        _give_differences(found, to, overwrite=overwrite, as_json=as_json)
        counts = found.counts
        if since is None and counts.added + counts.removed:
            stores.say_expired(one, other)
        if side_a.is_topic != side_b.is_topic and counts.added + counts.removed + counts.changed:
            stores.say_unflushed(side_b if side_a.is_topic else side_a)


def _give_differences(found: StoreDiff, to: str | None, *, overwrite: bool, as_json: bool) -> None:
    from kstoolkit.stores.rows.exporting import export as written_to  # noqa: PLC0415 - loads Arrow

    if to is not None:
        written_to(found, to, overwrite=overwrite)
    elif as_json:
        sys.stdout.writelines(f"{line}\n" for line in found.json_lines())
    else:
        for each in found.rows():
            say(str(each))
    note(f"{found.counts}.")


@taking(opened_at, but="path")
def export(
    path: str = stores.STORE, *, to: str = _TO, overwrite: bool = _OVERWRITE, **told: Any
) -> None:
    """Write the rows of a store to a file.

    As Parquet, lines of JSON, or CSV.
    """
    from kstoolkit.stores.rows.exporting import export as written_to  # noqa: PLC0415 - loads Arrow

    with opened_at(path, **told) as store:
        count = written_to(store, to, overwrite=overwrite)
    say(f"{format_count(count)} rows are in {to}.")


@taking(opened_at, but="path")
def growth(
    path: str = stores.STORE,
    *,
    retention: str | None = optional(
        "DURATION", "How long the store keeps rows.", "inferred from its segments"
    ),
    now: str | None = optional("T", "The moment to count back from.", "that of its newest row"),
    by: list[str] | None = optional(
        "FIELD",
        "Of Spark's state, the field of its keys to sum up by, as user; given several times, "
        "several together.",
        "all that every key has, and each field alone",
    ),
    top: int = typer.Option(
        10, min=1, metavar="N", help="How many keys, prefixes and windows to name."
    ),
    as_json: bool = options.AS_JSON_OBJECT,
    **told: Any,
) -> None:
    """Print who takes a store's room, and why it stays.

    All rows are read once. The fields of --json: verdict, horizon, expired, deletions, versions,
    segments, windows, prefixes, keys, by, fields, ages, and more; unknown says why a null is one.
    """
    from kstoolkit.stores.growth.growth import growth as grown  # noqa: PLC0415 - loads RocksDB

    with opened_at(path, **told) as store:
        found = grown(store, retention=retention, now=moment_given(now), by=by or None, top=top)
    if as_json:
        print_json([in_flags(found.to_dict())])
        return
    for sentence in found.verdict:
        say(in_flags(sentence))
    for header, uses in _tables(found):
        say()
        print_table([*header, "rows", "bytes"], uses)
