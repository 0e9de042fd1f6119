"""What a store's growth is, printed: its verdict, and tables of what takes most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.cli.flags import in_flags, reasons_in_flags
from kstoolkit.cli.terminal import print_json, print_table, say
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.records import KeyUse, PrefixUse, WindowUse


def print_growth(found: Growth, *, as_json: bool) -> None:
    """Print a verdict and tables for people, or one JSON object."""
    if as_json:
        print_json([reasons_in_flags(found.to_dict())])
        return
    for sentence in found.verdict:
        say(in_flags(sentence))
    for header, uses in _tables(found):
        say()
        print_table([*header, "rows", "bytes"], uses)


def _tables(found: Growth) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield what takes most, by key, by beginning of a key, by window; what there is of these."""
    if found.keys:
        by = f" by {', '.join(found.by)}" if found.by else ""
        yield [f"largest keys{by}"], _values(found.keys)
    for name, uses in found.fields.items():
        yield [f"largest {name}"], _values(uses)
    if _have_something_to_say(found):
        prefixes = [[f"{each.prefix}…", *_sizes(each)] for each in found.prefixes]
        yield ["largest prefixes"], prefixes
    if found.windows and found.horizon.watermark_ms is not None:
        windows = [[_span(each), _is_past(each), *_sizes(each)] for each in found.windows]
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
    begins = (key.key_raw or b"").startswith(prefix.prefix_raw)
    return begins and key.num_rows == prefix.num_rows


def _is_past(use: WindowUse) -> str:
    return "unknown" if use.is_past is None else "yes" if use.is_past else "no"


def _span(use: WindowUse) -> str:
    """Return when a window starts, or between which moments several do."""
    from kstoolkit.stores.growth.verdict import moment_text  # noqa: PLC0415 - loads Arrow

    start = moment_text(use.start_ms)
    return start if use.span_ms == 1 else f"{start}, {format_duration(use.span_ms)} of starts"


def _sizes(use: KeyUse | PrefixUse | WindowUse) -> list[str]:
    least = "at least " if getattr(use, "error_bytes", 0) else ""
    return [format_count(use.num_rows), f"{least}{format_bytes(use.data_bytes)}"]
