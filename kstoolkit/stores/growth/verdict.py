"""Why a store does not shrink, in sentences with the figures behind them.

Each rule looks at one thing, and says nothing where the figures say nothing. What should not be
there comes first, then why it can't go, who takes the room, and last what is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.stores.growth.clock import ONE_ROW_A_KEY, Clock
from kstoolkit.stores.growth.expiry import EXPIRY_RULES
from kstoolkit.stores.growth.remark import Remark, Weight
from kstoolkit.stores.growth.sparkrules import SPARK_RULES, retained_versions
from kstoolkit.stores.growth.wording import amount, moment_text, share_text
from kstoolkit.stores.rows.valuetext import value_text
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.records import Age


_MANY_TOMBSTONES = 0.1
_MUCH_DEAD = 1.5
_MUCH_OF_ALL = 0.05
_MORE_THAN_EVEN = 3
"""How many times its even share something takes at least, for it to be worth a sentence."""
_LONGEST_KEY = 80
"""How many characters of a key a sentence shows."""
_MUCH_PREALLOCATED_BYTES = 1 << 20
"""RocksDB sets 4 MiB aside for each MANIFEST; below one of these nobody would ask."""


def verdict_on(growth: Growth) -> tuple[str, ...]:
    """Return the sentences, the most important first; there is at least one."""
    if not growth.num_rows and not growth.num_undecoded_rows:
        empty = (_deleted, _preallocated, retained_versions, _left_out)
        return ("The store has no rows.", *_texts(*empty, growth=growth))
    found = _texts(*EXPIRY_RULES, *SPARK_RULES, *_RULES, growth=growth)
    told = amount(growth.num_rows, growth.data_bytes)
    return found or (f"No figure here says why it would not shrink: it has {told}.",)


def _texts(*rules: Callable[[Growth], Remark | None], growth: Growth) -> tuple[str, ...]:
    found = [remark for rule in rules if (remark := rule(growth)) is not None]
    found.sort(key=lambda each: (each.weight, -each.share))
    return tuple(each.text for each in found)


def _no_retention(growth: Growth) -> Remark | None:
    if growth.kind not in ONE_ROW_A_KEY:
        return None
    text = "A key-value store has no retention: each row stays until its key is deleted."
    stale = [each for each in growth.ages if each.num_rows]
    if not stale or growth.horizon.judged_at_ms is None:
        return Remark(Weight.CAUSE, 0.0, text)
    since = moment_text(growth.horizon.judged_at_ms)
    told = "; ".join(_not_updated(each, growth.num_rows) for each in stale)
    return Remark(
        Weight.CAUSE, stale[0].share, f"{text} Counted back from {since}, not updated were {told}."
    )


def _not_updated(age: Age, num_rows: int) -> str:
    told = amount(age.num_rows, age.data_bytes, age.error_rows)
    of_all = share_text(age.num_rows, num_rows)
    return f"{told}, {of_all} of the rows, for {format_duration(age.not_updated_for_ms)} or longer"


def _never_deleted(growth: Growth) -> Remark | None:
    deleted = growth.deletions
    if growth.kind not in ONE_ROW_A_KEY or deleted.num_deletions or not deleted.num_entries:
        return None
    text = (
        "Its files hold no tombstone: there is no sign that a key is ever deleted, though "
        "compactions take tombstones away too."
    )
    return Remark(Weight.CAUSE, 0.0, text)


def _deleted(growth: Growth) -> Remark | None:
    deleted = growth.deletions
    density = deleted.tombstone_density
    if density is None or density < _MANY_TOMBSTONES:
        return None
    text = (
        f"{format_count(deleted.num_deletions)} of {format_count(deleted.num_entries)} entries in "
        f"its files are tombstones ({share_text(density, 1)}): they and what they stand for go "
        "when compactions reach the last level."
    )
    return Remark(Weight.CAUSE, density, text)


def _amplified(growth: Growth) -> Remark | None:
    deletions = growth.deletions
    amplification, obsolete = deletions.space_amplification, deletions.num_obsolete
    if amplification is None or amplification < _MUCH_DEAD or not obsolete:
        return None
    dead = obsolete + (deletions.num_deletions or 0)
    if dead < _MANY_TOMBSTONES * (deletions.num_entries or 0):
        return None  # RocksDB's estimate leaves out files that overlap; the rows were counted
    text = (
        f"Its SST files take {amplification:.1f} times what RocksDB estimates to be live; "
        f"{format_count(obsolete)} entries are older versions of rows, or "
        "deleted: compactions would free that room."
    )
    return Remark(Weight.CAUSE, 1 - 1 / amplification, text)


def _preallocated(growth: Growth) -> Remark | None:
    size, disk = growth.size_bytes, growth.disk_bytes
    if growth.engine == "spark":  # its checkpoints hold packed files alone
        return None
    if size is None or disk is None or disk - size < max(size, _MUCH_PREALLOCATED_BYTES):
        return None
    text = (
        f"Its files are {format_bytes(size)} long, but take {format_bytes(disk)} on the disk: "
        "RocksDB sets room aside for the MANIFEST of each store and segment that is open, or was "
        "not closed cleanly."
    )
    return Remark(Weight.CAUSE, 1 - size / disk, text)


def _history(growth: Growth) -> Remark | None:
    versions = growth.versions
    if versions is None or not versions.num_history:
        return None
    per_key = versions.versions_per_key
    text = (
        f"History is {amount(versions.num_history, versions.history_bytes, noun='version')}, "
        f"{share_text(versions.history_bytes, growth.data_bytes or 1)} of the data, beside "
        f"{format_count(versions.num_latest)} latest ones; "
        + ("" if per_key is None else f"a key has {per_key:.1f} versions on average, and ")
        + f"one has at least {format_count(versions.most_versions)}."
    )
    return Remark(Weight.USE, versions.history_bytes / max(growth.data_bytes, 1), text)


def _largest_key(growth: Growth) -> Remark | None:
    largest = next(iter(growth.keys), None)
    if largest is None or not _stands_out(largest.share, growth.num_keys):
        return None
    whose = "" if growth.num_keys is None else f" of {format_count(growth.num_keys)}"
    told = amount(largest.num_rows, largest.data_bytes)
    more = f", and at most {format_bytes(largest.error_bytes)} more" if largest.error_bytes else ""
    text = (
        f"One key{whose}, {_shortened(value_text(largest.key))}, takes {told}{more}: "
        f"{share_text(largest.share, 1)} of the data."
    )
    return Remark(Weight.USE, largest.share, text)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}… ({len(text):,} long)"


def _largest_prefix(growth: Growth) -> Remark | None:
    largest = next(iter(growth.prefixes), None)
    if largest is None or not _stands_out(largest.share, growth.num_prefixes):
        return None
    key = next(iter(growth.keys), None)
    if key is not None and (largest.num_rows, largest.share) == (key.num_rows, key.share):
        return None  # it is the largest key alone, of which another sentence speaks
    told = amount(largest.num_rows, largest.data_bytes)
    text = (
        f"Keys that begin with {_shortened(repr(largest.prefix))} take {told}: "
        f"{share_text(largest.share, 1)} of the data."
    )
    return Remark(Weight.USE, largest.share, text)


def _largest_window(growth: Growth) -> Remark | None:
    largest = next(iter(growth.windows), None)
    if largest is None or not _stands_out(largest.share, growth.num_windows):
        return None
    told = amount(largest.num_rows, largest.data_bytes)
    starts = f"the window that starts at {moment_text(largest.start_ms)}"
    if largest.span_ms > 1:
        starts = (
            f"windows that start within {largest.span_ms} ms of {moment_text(largest.start_ms)}"
        )
    text = f"In {starts} are {told}: {share_text(largest.share, 1)} of the data."
    return Remark(Weight.USE, largest.share, text)


def _stands_out(share: float, count: int | None) -> bool:
    """Return whether a share is much of all, among so many; None: too many to count."""
    return share >= max(_MUCH_OF_ALL, _MORE_THAN_EVEN / count if count else 0)


def _undecoded(growth: Growth) -> Remark | None:
    count = growth.num_undecoded_rows
    if not count:
        return None
    rows, are = ("row", "is") if count == 1 else ("rows", "are")
    text = f"{format_count(count)} {rows} could not be taken apart, and {are} in no other figure."
    return Remark(Weight.UNKNOWN, 0.0, text)


def _left_out(growth: Growth) -> Remark | None:
    count = len(growth.left_out)
    if not count:
        return None
    parts = "A part of it is" if count == 1 else f"{format_count(count)} parts of it are"
    more = "" if count == 1 else ", and more"
    text = f"{parts} left out of all figures of rows: {growth.left_out[0].rstrip('.')}{more}."
    return Remark(Weight.UNKNOWN, 1.0, text)


def _no_times(growth: Growth) -> Remark | None:
    if growth.kind not in ONE_ROW_A_KEY or growth.clock != Clock.TIMESTAMP:
        return None
    if growth.horizon.stream_time_ms is not None:
        return None
    text = "How old its rows are is unknown: they have no timestamps."
    return Remark(Weight.UNKNOWN, 0.0, text)


_RULES = (
    _no_retention,
    _never_deleted,
    _deleted,
    _amplified,
    _preallocated,
    _history,
    _largest_key,
    _largest_prefix,
    _largest_window,
    _undecoded,
    _left_out,
    _no_times,
)
