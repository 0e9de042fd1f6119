"""Memory that stores need by the formula, against a limit, and what was measured beside it."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import plain, shortened
from kstoolkit.records import counted
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plan_memory, smallest_change
from kstoolkit.rocksdb.profiles.named import profile_given, profile_named, profile_names
from kstoolkit.units import format_bytes, format_count, parse_bytes
from kstoolkit.views import parts
from kstoolkit.widgets.panel import Face, Newest, Panel

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from kstoolkit.rocksdb.memory.fitting import MemoryChange
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.views.parts import Part
    from kstoolkit.widgets.memorymeasured import Measured

_COLUMNS = (("form", "measure"), ("told", "fit", "set", "bars", "said", "lacks", "terms"))
_MOST = 1_000_000
_LONGEST_NAME = 40
_COUNTS = {
    "partitions": ("Partitions", "On one host"),
    "segments": ("Segments", "Of each partition, open at once"),
    "stores": ("Stores", "Of each partition"),
    "column_families": ("Families", "Column families that are written, in each store"),
}
_POWERS = [1 << power for power in range(20, 36)]
_SIZES: dict[str, tuple[str, str, Sequence[int]]] = {
    "memtable_bytes": ("Memtable size", "write_buffer_size", _POWERS[:11]),
    "memtables": ("Memtables", "max_write_buffer_number", range(2, 17)),
    "block_cache_bytes": ("Block cache", "block_cache_bytes", [0, *_POWERS]),
}
"""Label, the option of a profile, and what to choose from beside the profile's own."""
_DATA = {
    "keys": ("Keys", "In one store"),
    "key_bytes": ("Key bytes", "On average"),
    "value_bytes": ("Value bytes", "On average"),
    "iterators": ("Iterators", "Open at once, in one store"),
}
_CACHED = "cache_index_and_filter_blocks"
_LIMIT, _IN_CACHE, _PROFILE = "limit", "blocks_in_cache", "profile"
_NAMES = (*_COUNTS, _PROFILE, *_SIZES, _IN_CACHE, *_DATA, _LIMIT)


class MemoryPanel(Panel):
    """Say how many stores there are and what they are opened with, and see what memory they need.

    Against a limit, it says by how much that is over, and the smallest change that fits.

    Parameters
    ----------
    thing
        What to measure beside the formula: an open store or its folder; the folder of an
        application, or what ``discover()`` found; a live run; what ``memory()`` or
        ``spark_memory()`` returned; or a plan to compare. None: the formula alone.
    profile
        The profile to begin with, or its name; None: that of the store or run, or Kafka Streams'.

    Examples
    --------
    >>> panel = MemoryPanel(profile="kafka_streams")
    >>> panel.set(partitions=40, segments=3, memtable_bytes=32 << 20, block_cache_bytes=16 << 20)
    >>> panel.plan.total_bytes >> 20
    13440
    >>> panel.set(limit="8 GiB")
    >>> panel.change
    MemoryChange(write_buffer_size 17.0 MiB in place of 32.0 MiB)
    >>> panel
    MemoryPanel(40 x 3 x 1 = 120 RocksDB instances: at least 13.1 GiB)
    >>> panel.close()
    """

    def __init__(
        self, thing: Any = None, *, profile: Profile | str | os.PathLike[str] | None = None
    ) -> None:
        self._thing: Any = thing
        self._keeps_profile = profile is not None
        self._lock = RLock()
        self._measured: Measured | None = None
        self._is_measuring = False
        self._base: Profile = profile_given("kafka_streams" if profile is None else profile)
        self.profile: Profile = self._base
        self.values: dict[str, int | None] = dict.fromkeys(_COUNTS, 1) | dict.fromkeys(_DATA)
        self.limit_bytes: int | None = None
        self.plan: MemoryPlan = self._planned()
        self.face = Face(_COLUMNS, self._heard)
        self._measuring = Newest(lambda why: self.face.say("said", why))
        super().__init__("Memory of RocksDB", [self.face], self.face.still)
        self.on_close(self._measuring.stop)
        is_plan = isinstance(thing, MemoryPlan)
        self._is_measuring = not (thing is None or is_plan)
        self._show()
        if is_plan:  # tells all by itself
            self._take_over(thing.given)
        if thing is not None:
            self._measuring.ask(lambda: self._measure(takes=not is_plan))
        if self._is_measuring:
            again = {"name": "measure", "label": "Measure again"}
            self.face.put("measure", parts.buttons("What is measured", again))

    @property
    def change(self) -> MemoryChange | None:
        """The smallest change under which all fits the limit; None if it fits, or none helps."""
        return None if self.limit_bytes is None else smallest_change(self.plan, self.limit_bytes)

    def set(self, **told: Any) -> None:
        """Set what a plan is made of; what makes no sense is said, and changes nothing.

        Names are those of :func:`kstoolkit.plan_memory`; ``blocks_in_cache`` is whether index and
        filter blocks are in the cache, and ``limit`` what all should fit, as ``"8 GiB"`` or bytes.
        """
        with self._lock, self.face.telling("said"):
            before = self._base, self.profile, self.values, self.limit_bytes
            try:
                for name, value in told.items():
                    self._take(name, value)
                self.plan = self._planned()
            except ConfigurationError:
                self._base, self.profile, self.values, self.limit_bytes = before
                raise
            finally:
                self._show()

    def measure(self) -> None:
        """Measure again."""
        self._measuring.ask(self._measure)

    def wait(self) -> None:
        """Wait until it is measured."""
        self._measuring.wait()

    def __repr__(self) -> str:
        return f"MemoryPanel({self._in_words()})"

    def _heard(self, told: dict[str, Any]) -> None:
        if "field" in told:
            _, name, value = told["field"]
            with self.face.telling("said"):
                self.set(**{name: _typed(name, value)})
        elif told.get("pressed", [""])[0] == "measure":
            self.measure()
        elif "pressed" in told and (change := self.change) is not None:
            self.set(profile=change.profile)

    def _take(self, name: str, value: Any) -> None:
        """Take a value; the state is replaced, not changed, so that it can be as before."""
        if name not in _NAMES:
            message = f"Nothing is called {name!r} here."
            raise ConfigurationError(message, hint=f"There are {', '.join(_NAMES)}.")
        if name == _PROFILE:
            self._base = self.profile = profile_given(value)
        elif name == _LIMIT:
            self.limit_bytes = None if value is None else parse_bytes(value)
        elif name == _IN_CACHE:
            self.profile = self.profile.changed(**{_CACHED: bool(value)})
        elif name in _SIZES:
            option = _SIZES[name][1]
            size = getattr(self._base, option) if value is None else value
            if size is not None:
                self.profile = self.profile.changed(**{option: size})
        elif name in _COUNTS and not (isinstance(value, int) and 1 <= value <= _MOST):
            message = f"{name}={value!r:.80} is no number of them."
            raise ConfigurationError(message, hint=f"Give a whole number from 1 to {_MOST:,}.")
        else:
            self.values = self.values | {name: value}

    def _planned(self) -> MemoryPlan:
        values: dict[str, Any] = self.values
        return plan_memory(self.profile, **values)

    def _show(self) -> None:
        plan = self.plan
        change, lacking = self.change, [t.term for t in plan.terms if t.total_bytes is None]
        measured = self._measured.words if self._measured else "Measuring …" * self._is_measuring
        lacks = f"Not in it, as unknown: {', '.join(lacking)}." if lacking else ""
        with self._lock, self.face.hold_sync():
            self.face.put("form", self._form())
            self.face.put("told", parts.sentence(f"{self._in_words()}{plan.mostly_for}."))
            self.face.put("fit", self._fits(change))
            use = {"name": "change", "label": "Set it", "title": "Take it over into the form"}
            self.face.put("set", parts.buttons("The change", use) if change else {})
            self.face.put("bars", self._bars())
            self.face.put("said", parts.said(measured))
            self.face.put("lacks", parts.said(lacks))
            self.face.put("terms", _terms(plan))

    def _form(self) -> Part:
        fields = [
            parts.field(name, label, format_count(self.values[name]), title=tip)
            for name, (label, tip) in _COUNTS.items()
        ]
        names, name = profile_names(), self._base.name or "no name"
        if name not in names or profile_named(name) != self._base:
            name = f"{shortened(plain(name), _LONGEST_NAME)} (given)"
            names = (name, *names)
        offered = [(each, each) for each in names]
        fields.append(parts.field(_PROFILE, "Profile", name, type="choice", options=offered))
        fields += [self._slider(name, *about) for name, about in _SIZES.items()]
        title, in_cache = "Index and filter blocks in the cache", getattr(self.profile, _CACHED)
        fields.append(parts.field(_IN_CACHE, title, bool(in_cache), type="tick"))
        for name, (label, tip) in _DATA.items():
            value = self.values[name]
            told = "" if value is None else format_count(value)
            fields.append(parts.field(name, label, told, hint="unknown", title=tip))
        limit = "" if self.limit_bytes is None else format_bytes(self.limit_bytes)
        last = parts.field(_LIMIT, "Limit", limit, hint="such as 8 GiB", title="Of a container")
        return parts.form("What memory is planned for", *fields, last)

    def _slider(self, name: str, label: str, option: str, offered: Sequence[int]) -> Part:
        value = getattr(self.profile, option)
        shown = format_count if name == "memtables" else format_bytes
        values = sorted({*offered, *([] if value is None else [value])})
        options: list[tuple[int | None, str]] = [(each, shown(each)) for each in values]
        options = [(None, "unknown")] * (value is None) + options
        return parts.field(name, label, value, type="slider", options=options, title=option)

    def _fits(self, change: MemoryChange | None) -> Part:
        limit, total = self.limit_bytes, self.plan.total_bytes
        if limit is None:
            return {}
        size = format_bytes(limit)
        if total <= limit:
            return parts.sentence(f"A limit of {size}: {format_bytes(limit - total)} are left.")
        told = f"A limit of {size}: {format_bytes(total - limit)} over."
        if change is None:
            return parts.sentence(f"{told} No change of these options fits.")
        after = format_bytes(change.total_bytes)
        return parts.sentence(
            f"{told} The smallest change that fits: {change}: {after} in all.", str(change)
        )

    def _bars(self) -> Part:
        found = self._measured
        terms = [(t.term, t.total_bytes, format_bytes(t.total_bytes)) for t in self.plan.terms]
        known = [(name, size, text) for name, size, text in terms if size]
        formula = ("by the formula", format_bytes(self.plan.total_bytes), known)
        limit = self.limit_bytes
        against = None if limit is None else (float(limit), f"the limit, {format_bytes(limit)}")
        return parts.bars("Memory", [formula, *(() if found is None else found.bars)], against)

    def _measure(self, *, takes: bool = False) -> None:
        """Measure; the first time, what is found is taken over into the form; in a thread."""
        from kstoolkit.widgets.memorymeasured import measured  # noqa: PLC0415 - opens stores

        self.face.say("said", "Measuring …")
        self._measured = found = measured(self._thing)
        self._is_measuring = False
        self._take_over(found.told if takes else {})

    def _take_over(self, told: Mapping[str, Any]) -> None:
        """Set what is told, but a profile that was given beside it."""
        keeps = {_PROFILE} if self._keeps_profile else set[str]()
        self.set(**{name: each for name, each in told.items() if name not in keeps})

    def _in_words(self) -> str:
        plan, values = self.plan, self.values
        counts = [format_count(values[name]) for name in ("partitions", "segments", "stores")]
        least = "at most" if plan.is_ceiling else "at least"
        instances = counted(plan.instances, "RocksDB instances")
        return f"{' x '.join(counts)} = {instances}: {least} {format_bytes(plan.total_bytes)}"


def _typed(name: str, value: Any) -> Any:
    if name in _COUNTS or name in _DATA:
        label = (_COUNTS | _DATA)[name][0]
        digits = value.replace(",", "").replace("_", "").strip()
        if digits and not digits.isdecimal():
            message = f"{label}: {value!r:.80} is no whole number."
            raise ConfigurationError(message, hint="Write it as 1,000,000; nothing is unknown.")
        return int(digits) if digits else None
    return (value.strip() or None) if name == _LIMIT else value


def _terms(plan: MemoryPlan) -> Part:
    terms = list(plan.terms)
    totals = np.array([each.total_bytes or 0 for each in terms])
    times = ["shared by all" if each.shared else format_count(each.count) for each in terms]
    columns = [
        parts.words("term", [each.term for each in terms]),
        parts.words("each", [format_bytes(each.each_bytes) for each in terms], kind="figure"),
        parts.words("times", times, kind="figure"),
        parts.numbers("in all", totals, texts=[format_bytes(each.total_bytes) for each in terms]),
        parts.words("how", [each.unknown.get("total_bytes", each.formula) for each in terms]),
    ]
    return parts.table("What it is made of", "terms", columns, opens=True)
