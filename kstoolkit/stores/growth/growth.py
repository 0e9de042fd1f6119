"""Why a store has the size that it has: figures, and a verdict in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.stores.growth.verdict import verdict_on
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from kstoolkit.records import Figure, Records
    from kstoolkit.stores.growth.checkpointuse import CheckpointUse
    from kstoolkit.stores.growth.records import (
        Age,
        Deletions,
        Expired,
        Horizon,
        KeyUse,
        PrefixUse,
        SegmentUse,
        Versions,
        WindowUse,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Growth(Record):
    """Who takes a store's room, what of it is past its time, and why it does not shrink.

    Printed, it is its verdict: sentences with the figures behind them, the most important first.

    Parameters
    ----------
    store, engine, kind
        Its name, whose it is, and what kind of store; None if that is not known.
    clock
        Which time of a row its age is counted from; None if there was no row.
    horizon
        From when on it keeps rows.
    expired
        What is older than that, and still there.
    deletions
        What was deleted, and is still in its files.
    versions
        What a versioned store keeps of the past; None of any other store.
    segments, windows, prefixes, keys, ages
        Who takes the room: all segments, and the largest of the others.
    by
        The fields of Spark's keys that they are summed up by, together; none: ``keys`` are whole.
    fields
        The largest values of each field alone, by its name, but of one that ``keys`` are.
    num_rows, data_bytes
        The application's rows, and what their keys and values are before compression, without what
        the store wraps them in.
    num_untimed_rows
        Rows that have no such time: the latest versions of a versioned store, for one.
    num_undecoded_rows
        Rows that could not be taken apart; they are in no other figure.
    num_without_fields
        Rows whose keys have none of the fields in ``by``: those of other state variables.
    num_keys, num_prefixes, num_windows
        How many keys, beginnings of keys and starts of windows there are; if windows are too many
        to be told one by one, how many spans of their starts.
    size_bytes, disk_bytes
        How long the store's files are, and what they take on the disk.
    checkpoint
        What a checkpoint of Spark's keeps of it: versions in files. None of any other store.
    left_out
        Folders of it that could not be read, or were not, and why: they are in no other figure.
    """

    store: str
    engine: str | None
    kind: str | None
    clock: str | None
    horizon: Horizon
    expired: Expired
    deletions: Deletions
    versions: Versions | None
    segments: Records[SegmentUse]
    windows: Records[WindowUse]
    prefixes: Records[PrefixUse]
    keys: Records[KeyUse]
    ages: Records[Age]
    num_rows: int = of_source(Source.STORE)
    data_bytes: int = of_source(Source.STORE)
    num_untimed_rows: int = of_source(Source.STORE)
    num_undecoded_rows: int = of_source(Source.STORE)
    num_keys: int | None = of_source(Source.STORE)
    num_prefixes: int | None = of_source(Source.STORE)
    num_windows: int | None = of_source(Source.STORE)
    size_bytes: int | None = of_source(Source.STORE)
    disk_bytes: int | None = of_source(Source.STORE)
    num_without_fields: int = of_source(Source.STORE, 0)
    by: tuple[str, ...] = ()
    fields: dict[str, Records[KeyUse]] = field(default_factory=dict)
    checkpoint: CheckpointUse | None = None
    left_out: tuple[str, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> tuple[str, ...]:
        """Why the store does not shrink, in sentences, the most important first."""
        return verdict_on(self)

    def figures(self) -> list[Figure]:
        """Return the figures that are one number each; of its parts as ``expired.num_rows``."""
        # Not by super(): it does not work in a class that slots have made anew.
        found = Record.figures(self)
        for name in ("horizon", "expired", "deletions", "versions", "checkpoint"):
            part: Record | None = getattr(self, name)
            told = [] if part is None else part.figures()
            found += [replace(each, name=f"{name}.{each.name}") for each in told]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and all figures as plain values, as ``--json`` prints them."""
        return {"verdict": list(self.verdict)} | Record.to_dict(self)

    def __str__(self) -> str:
        return "\n".join(self.verdict)

    def __repr__(self) -> str:
        by = f", by {', '.join(self.by)}" if self.by else ""
        past = self.num_past_rows
        told = (
            "unknown what is expired" if past is None else f"{counted(past[0], 'rows')} {past[1]}"
        )
        return (
            f"Growth({self.store!r}, {self.kind or 'of unknown kind'}, "
            f"{counted(self.num_rows, 'rows')}, {format_bytes(self.data_bytes)} of keys and "
            f"values{by}, {told})"
        )

    @property
    def num_past_rows(self) -> tuple[int, str] | None:
        """How many rows are past what decides over them, and what that is; None if unknown."""
        expired = self.expired
        for count, what in (
            (expired.num_rows, "expired"),
            (expired.num_below_watermark, "past the watermark"),
            (expired.num_past_ttl, "past their time to live"),
        ):
            if count is not None:
                return count, what
        return None

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(each)}</li>" for each in self.verdict)
        tables: list[Records[Any]] = [self.segments, self.windows, self.prefixes, self.keys]
        tables += [*self.fields.values(), self.ages]
        shown = "".join(each._repr_html_() for each in tables if each)
        return f"<ol>{sentences}</ol>{Record._repr_html_(self)}{shown}"
