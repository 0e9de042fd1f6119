"""What a store's growth is, printed: its verdict, and tables of what takes most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.cli.flags import in_flags, reasons_in_flags
from kstoolkit.cli.terminal import print_json, print_table, say
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.records import KeyUse, PrefixUse, WindowUse

__all__ = ["print_growth"]


def print_growth(found: Growth, *, as_json: bool) -> None:
    """Print a verdict and tables for people, or one JSON object."""
    if as_json:
        print_json([reasons_in_flags(found.to_dict())])
        return
    for sentence in found.verdict:
        say(in_flags(sentence))
    for header, uses in _tables(found):
        say()
        print_table([header, "rows", "bytes"], uses)


def _tables(found: Growth) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield what takes most, by key, by beginning of a key, by window; what there is of these."""
    from kstoolkit.stores.rows.valuetext import value_text  # noqa: PLC0415 - loads Arrow

    if found.keys:
        yield "largest keys", [[value_text(each.key), *_sizes(each)] for each in found.keys]
    if _have_something_to_say(found):
        yield "largest prefixes", [[f"{each.prefix}…", *_sizes(each)] for each in found.prefixes]
    if found.windows:
        yield "largest windows", [[_span(each), *_sizes(each)] for each in found.windows]


def _have_something_to_say(found: Growth) -> bool:
    """Return whether beginnings of keys are no bytes of Spark's rows, nor just the keys again."""
    whole = [each.key_raw for each in found.keys]
    begun = [each.prefix_raw for each in found.prefixes]
    return bool(begun) and begun != whole and found.engine != "spark"


def _span(use: WindowUse) -> str:
    """Return when a window starts, or between which moments several do."""
    from kstoolkit.stores.growth.wording import moment_text  # noqa: PLC0415 - loads Arrow

    start = moment_text(use.start_ms)
    return start if use.span_ms == 1 else f"{start}, {format_duration(use.span_ms)} of starts"


def _sizes(use: KeyUse | PrefixUse | WindowUse) -> list[str]:
    least = "at least " if getattr(use, "error_bytes", 0) else ""
    return [format_count(use.num_rows), f"{least}{format_bytes(use.data_bytes)}"]
