"""Sentences about what takes rows out of a store of Spark's, and what its checkpoint keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.records import counted
from kstoolkit.stores.growth.checkpointuse import Eviction
from kstoolkit.stores.growth.remark import Remark, Weight
from kstoolkit.stores.growth.wording import amount, moment_text, share_text
from kstoolkit.stores.rows.valuetext import value_text
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.stores.growth.checkpointuse import CheckpointUse
    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.records import KeyUse


_MUCH_OF_ALL = 0.05
_MORE_THAN_EVEN_VALUES = 2
"""How many times its even share among those named a value takes at least, to be worth a word."""
_LONGEST_VALUE = 80
_MUCH_ON_DISK = 2
"""How many times their length files take on the disk, for it to be worth a sentence."""


def retained_versions(growth: Growth) -> Remark | None:
    """Return what the versions take that Spark keeps beside the newest; None of one version."""
    use = growth.checkpoint
    if use is None or use.num_versions <= 1:
        return None
    text = (
        f"Its checkpoint keeps {counted(use.num_versions, 'versions')} of it, "
        f"{use.oldest_version} to {use.newest_version}: {_files(use)}; the rows that are read here "
        f"are {format_bytes(growth.data_bytes)}."
    )
    if use.disk_bytes > _MUCH_ON_DISK * max(use.size_bytes, 1):
        text += (
            f" The {format_bytes(use.size_bytes)} of these files take "
            f"{format_bytes(use.disk_bytes)} on the disk, as small files take whole blocks."
        )
    text += (
        " Spark keeps as many as spark.sql.streaming.minBatchesToRetain says, 100 by default, and "
        "removes older files in the background."
    )
    return Remark(Weight.CAUSE, 1 - min(growth.data_bytes / max(use.size_bytes, 1), 1), text)


def _files(use: CheckpointUse) -> str:
    told = [
        f"{counted(count, kind)} ({format_bytes(size)})"
        for kind, count, size in (
            ("files of snapshots", use.num_snapshots, use.snapshots_bytes),
            ("changelogs", use.num_changelogs, use.changelogs_bytes),
            ("other files", use.num_others, use.others_bytes),
        )
        if count
    ]
    return " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)


def _no_watermark(growth: Growth) -> Remark | None:
    use = growth.checkpoint
    if use is None or use.eviction is not Eviction.WATERMARK or use.watermark_ms is not None:
        return None
    text = "The query has no watermark: Spark evicts no row of this store, however old it is."
    return Remark(Weight.CAUSE, 1.0, text)


def _no_event_time(growth: Growth) -> Remark | None:
    use = growth.checkpoint
    if use is None or use.eviction is not Eviction.WATERMARK or use.watermark_ms is None:
        return None
    is_join = "join" in (growth.kind or "")  # what one of its stores loses, the others lose too
    if is_join or growth.num_untimed_rows < growth.num_rows:
        return None
    text = (
        f"Its rows have no time that could be held against the watermark, "
        f"{moment_text(use.watermark_ms)}: Spark evicts none of them."
    )
    return Remark(Weight.CAUSE, 1.0, text)


def _by_code(growth: Growth) -> Remark | None:
    use = growth.checkpoint
    if use is None:
        return None
    if use.eviction is Eviction.NEVER:
        text = "It is the count of a limit: it stays for as long as the query runs."
        return Remark(Weight.CAUSE, 0.0, text)
    if use.eviction is not Eviction.CODE:
        return None
    text = (
        "No watermark takes rows out of it: each stays until the query's own code removes it, as "
        "on a timeout or by a timer."
    )
    return Remark(Weight.CAUSE, 1.0, text)


def _past_ttl(growth: Growth) -> Remark | None:
    use, expired = growth.checkpoint, growth.expired
    if use is None or expired.num_past_ttl is None or growth.num_untimed_rows == growth.num_rows:
        return None
    at = moment_text(use.batch_at_ms)
    if not expired.num_past_ttl:
        text = f"No row was past its time to live when the latest micro-batch ran, {at}."
        return Remark(Weight.IN_ORDER, 0.0, text)
    size = expired.past_ttl_bytes or 0
    were = "was past its" if expired.num_past_ttl == 1 else "were past their"
    text = (
        f"{amount(expired.num_past_ttl, size)}, "
        f"{share_text(expired.num_past_ttl, growth.num_rows)} of the rows, {were} time to live "
        f"when the latest micro-batch ran, {at}. Reads hide such rows, and Spark removes them at "
        "the end of a micro-batch."
    )
    return Remark(Weight.OVERDUE, size / max(growth.data_bytes, 1), text)


def _no_ttl(growth: Growth) -> Remark | None:
    use, untimed = growth.checkpoint, growth.num_untimed_rows
    if use is None or use.eviction is not Eviction.TTL or not untimed:
        return None
    rows = "1 row has" if untimed == 1 else f"{counted(untimed, 'rows')} have"
    text = f"{rows} no time to live: such a row stays until the query's own code removes it."
    return Remark(Weight.CAUSE, untimed / max(growth.num_rows, 1), text)


def _largest_value(growth: Growth) -> Remark | None:
    """Return which value of one of several fields takes more of the data than its even share."""
    firsts = [(each[0], name) for name, each in growth.fields.items() if _value_stands_out(each)]
    # Of what one key has alone, another sentence speaks.
    key_rows = max((each.num_rows for each in growth.keys[:1]), default=0)
    found = [(use, name) for use, name in firsts if use.num_rows > key_rows]
    if not found:
        return None
    use, name = max(found, key=lambda each: each[0].share)
    value = value_text(use.key)
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    text = (
        f"Keys whose {name} is {shown} take {amount(use.num_rows, use.data_bytes)}: "
        f"{share_text(use.share, 1)} of the data."
    )
    return Remark(Weight.USE, use.share, text)


def _value_stands_out(values: Sequence[KeyUse]) -> bool:
    """Return whether the largest takes much of all: of as many as are named, at least."""
    if len(values) < 2:  # noqa: PLR2004 - one alone stands out of nothing
        return False
    return values[0].share >= max(_MUCH_OF_ALL, _MORE_THAN_EVEN_VALUES / len(values))


SPARK_RULES = (
    retained_versions,
    _no_watermark,
    _no_event_time,
    _by_code,
    _past_ttl,
    _no_ttl,
    _largest_value,
)
