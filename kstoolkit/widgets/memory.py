"""Memory that stores need by the formula, as controls say, and what was measured beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import BoundedIntText, Dropdown, HBox, Text, VBox

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, joined, plain, shortened
from kstoolkit.records import counted
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plan_memory
from kstoolkit.rocksdb.profiles.named import profile_given, profile_named, profile_names
from kstoolkit.units import format_bytes, format_count
from kstoolkit.widgets.panel import (
    Newest,
    Panel,
    Shown,
    Slider,
    button,
    field_look,
    pictures,
    table_html,
    tick_box,
    wrapping,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.widgets.memorymeasured import Measured


_MOST = 1_000_000
_LONGEST_NAME = 40
_UNKNOWN = -1  # a slider can't say None
_COUNTS = {
    "partitions": ("Partitions", "On one host"),
    "segments": ("Segments", "Of each partition, open at once"),
    "stores": ("Stores", "Of each partition"),
    "column_families": ("Families", "Column families that are written, in each store"),
}
_POWERS = [1 << power for power in range(20, 36)]
_SIZES: dict[str, tuple[str, str, Sequence[int]]] = {
    "memtable_bytes": ("Memtable size", "write_buffer_size", _POWERS[:11]),
    "memtables": ("Memtables", "max_write_buffer_number", range(1, 17)),
    "block_cache_bytes": ("Block cache", "block_cache_bytes", [0, *_POWERS]),
}
"""Label, the option of a profile, and what to choose from beside the profile's own."""
_DATA = {
    "keys": ("Keys", "In one store"),
    "key_bytes": ("Key bytes", "On average"),
    "value_bytes": ("Value bytes", "On average"),
    "iterators": ("Iterators", "Open at once, in one store"),
}


class _Controls(VBox):  # type: ignore[misc] # ipywidgets carries no types
    """What a plan is made of, each part a control."""

    def __init__(self, profile: Profile) -> None:
        self._own: dict[str, Profile] = {}
        self.controls: dict[str, Any] = {
            name: BoundedIntText(value=1, min=1, max=_MOST, **_look(label, tip))
            for name, (label, tip) in _COUNTS.items()
        }
        names = profile_names()
        self.controls["profile"] = Dropdown(options=names, **_look("Profile", None, 256))
        self._sliders = {
            name: Slider([("unknown", _UNKNOWN)], look=_look(label, option))
            for name, (label, option, _) in _SIZES.items()
        }
        self.controls |= {name: each.choice for name, each in self._sliders.items()}
        self.controls["blocks_in_cache"] = tick_box("Index and filter blocks in the cache")
        for name, (label, tip) in _DATA.items():
            look = _look(label, tip)
            self.controls[name] = Text(placeholder="unknown", continuous_update=False, **look)
        self.controls["profile"].observe(self._fill, "value")
        super().__init__(self._rows())
        self.offer(profile)

    @property
    def profile(self) -> Profile:
        """The profile that is chosen, with what the sliders say instead of it."""
        base = self._base()
        told = {option: self.controls[name].value for name, (_, option, _) in _SIZES.items()}
        told["cache_index_and_filter_blocks"] = self.controls["blocks_in_cache"].value
        changes = {
            option: value
            for option, value in told.items()
            if value not in (_UNKNOWN, getattr(base, option))
        }
        return base.changed(**changes) if changes else base

    def plan(self) -> MemoryPlan:
        counts = {name: self.controls[name].value for name in _COUNTS}
        data: dict[str, Any] = {
            name: _whole(label, self.controls[name].value) for name, (label, _) in _DATA.items()
        }
        return plan_memory(self.profile, **counts, **data)

    def tell(self, **told: Any) -> None:
        """Give some controls their values; a size that is not on a slider is put there."""
        for name, value in told.items():
            if name not in self.controls:
                message = f"Nothing is called {name!r} here."
                raise ConfigurationError(message, hint=f"There are {', '.join(self.controls)}.")
            if name == "profile":
                self.offer(profile_given(value))
            elif name in _SIZES:
                self._slide(name, value)
            elif name in _DATA:
                self.controls[name].value = "" if value is None else str(value)
            else:
                self._set(name, value)

    def offer(self, profile: Profile) -> None:
        """Choose a profile, which is offered beside the named ones if it is none of them."""
        name = profile.name
        if name not in profile_names() or profile_named(name) != profile:
            name = f"{shortened(plain(name or 'no name'), _LONGEST_NAME)} (given)"
            self._own = {name: profile}
            self.controls["profile"].options = (name, *profile_names())
        self.controls["profile"].value = name
        self._fill()

    def _rows(self) -> list[HBox]:
        named = (tuple(_COUNTS), ("profile", "blocks_in_cache"), tuple(_SIZES), tuple(_DATA))
        parts = self.controls | self._sliders
        return [wrapping(*(parts[name] for name in names)) for names in named]

    def _base(self) -> Profile:
        name = self.controls["profile"].value
        return self._own[name] if name in self._own else profile_named(name)

    def _fill(self, _: object = None) -> None:
        """Have the sliders say what the profile does."""
        base = self._base()
        for name, (_, option, _) in _SIZES.items():
            self._slide(name, getattr(base, option))
        self.controls["blocks_in_cache"].value = bool(base.cache_index_and_filter_blocks)

    def _slide(self, name: str, value: int | None) -> None:
        label, _, offered = _SIZES[name]
        if value is not None and (isinstance(value, bool) or value < 0):
            message = f"{label} can't be {value!r}."
            raise ConfigurationError(message, hint="Give a whole number, not below 0.")
        values = {*offered, *([] if value is None else [value])}
        control = self.controls[name]
        shown = str if name == "memtables" else format_bytes
        options = [(shown(each), each) for each in sorted(values)]
        control.options = [("unknown", _UNKNOWN)] * (value is None) + options
        control.value = _UNKNOWN if value is None else value

    def _set(self, name: str, value: Any) -> None:
        control = self.controls[name]
        if name in _COUNTS and not (isinstance(value, int) and 1 <= value <= _MOST):
            message = f"{name}={value!r:.80} is no number of them."
            raise ConfigurationError(message, hint=f"Give a whole number from 1 to {_MOST:,}.")
        control.value = value


def _look(label: str, tooltip: str | None, width_px: int = 232) -> dict[str, Any]:
    return field_look(label, 112, width_px, tooltip)


def _whole(label: str, text: str) -> int | None:
    digits = text.replace(",", "").replace("_", "").strip()
    if not digits:
        return None
    if not digits.isdecimal():
        message = f"{label}: {text!r:.80} is no whole number."
        raise ConfigurationError(message, hint="Write it as 1,000,000; nothing is unknown.")
    return int(digits)


_COLUMNS = ("term", "each", "times", "in all", "how")


class MemoryPanel(Panel):
    """Say how many stores there are and what they are opened with, and see what memory they need.

    Each size has a list with its label, which the keyboard works, and a slider for the mouse;
    :meth:`set` takes the same by name.

    Parameters
    ----------
    thing
        What to measure beside the formula: an open store or its folder; a live run; what
        ``memory()`` or ``spark_memory()`` returned; or a plan to compare. None: the formula alone.
    profile
        The profile to begin with, or its name; None: that of the store or run, or Kafka Streams'.

    Examples
    --------
    >>> panel = MemoryPanel(profile="kafka_streams")
    >>> panel.set(partitions=40, segments=3, memtable_bytes=32 << 20, block_cache_bytes=16 << 20)
    >>> panel.plan.total_bytes >> 20
    13440
    >>> panel
    MemoryPanel(40 x 3 x 1 = 120 RocksDB instances: at least 13.1 GiB)
    >>> panel.close()
    """

    def __init__(
        self, thing: Any = None, *, profile: Profile | str | os.PathLike[str] | None = None
    ) -> None:
        self._thing: Any = thing
        self._measured: Measured | None = None
        self._keeps_profile = profile is not None
        self._said, self._words, self._shown = Shown(), Shown(), Shown()
        self._newest, self._measuring = Newest(self._said.say), Newest(self._said.say)
        self.plan: MemoryPlan | None = None
        self.form = _Controls(profile_given("kafka_streams" if profile is None else profile))
        for control in self.form.controls.values():
            control.observe(self._change, "value")
        self.again = button("Measure again", None, self.measure)
        self.again.layout.display = "none" if thing is None else ""
        children = [self.form, self.again, self._said, self._words, self._shown]
        super().__init__("Memory of RocksDB", children, self._static)
        for newest in (self._newest, self._measuring):
            self.on_close(newest.stop)
        self._change()
        if thing is not None:
            self._measuring.ask(lambda: self._measure(takes=True))

    def set(self, **told: Any) -> None:
        """Give controls their values; what makes no sense is said.

        They are named as :func:`kstoolkit.plan_memory` does, and ``blocks_in_cache`` is whether
        index and filter blocks are in the cache.
        """
        with self._said.telling():
            self.form.tell(**told)

    def measure(self) -> None:
        """Measure again."""
        self._measuring.ask(self._measure)

    def wait(self) -> None:
        """Wait until it is measured and drawn."""
        self._measuring.wait()
        self._newest.wait()

    def __repr__(self) -> str:
        return f"MemoryPanel({self._in_words()})"

    def _change(self, _: object = None) -> None:
        try:
            self.plan = self.form.plan()
            self._said.put(Html())
        except ConfigurationError as error:
            self._said.say(str(error))
            return
        lacking = ", ".join(self._lacking())
        told = [f"{self._in_words()}{self._largest()}."]
        told.append(f"Not in it, as unknown: {lacking}." if lacking else "")
        told.append("" if self._measured is None else self._measured.words)
        self._words.put(joined(*(element("p", each) for each in told if each)))
        self._newest.ask(self._draw)

    def _draw(self) -> None:
        from kstoolkit.plots.marks import draw_memory  # noqa: PLC0415 - draws: in its thread
        from kstoolkit.plots.memory import bar_of_plan  # noqa: PLC0415 - as above

        plan, found = self.plan, self._measured
        if plan is None:
            return
        bars = [bar_of_plan("formula", plan), *(() if found is None else found.bars)]
        needs = self._in_words().partition(": ")[2]
        said = f"RocksDB needs {needs} for {counted(plan.instances, 'instances')} by the formula"
        paid = [each for each in plan.terms if each.total_bytes == 0]
        notes = [f"{each.term}: {each.formula}" for each in paid]
        self._shown.draw(lambda ax: draw_memory(ax, bars, said, notes))

    def _measure(self, *, takes: bool = False) -> None:
        """Measure; the first time, what is found is taken over into the controls; in a thread."""
        from kstoolkit.widgets.memorymeasured import measured  # noqa: PLC0415 - opens stores

        self._said.say("Measuring …")
        self._measured = found = measured(self._thing)
        self._said.put(Html())
        if takes and found.told:
            told = found.told
            if self._keeps_profile:
                told = {name: value for name, value in told.items() if name != "profile"}
            self.form.tell(**told)
        self._change()

    def _in_words(self) -> str:
        plan, told = self.plan, self.form.controls
        if plan is None:
            return "unknown"
        counts = [format_count(told[name].value) for name in ("partitions", "segments", "stores")]
        least = "at most" if plan.is_ceiling else "at least"
        instances = counted(plan.instances, "RocksDB instances")
        return f"{' x '.join(counts)} = {instances}: {least} {format_bytes(plan.total_bytes)}"

    def _largest(self) -> str:
        known = [each for each in self.plan.terms if each.total_bytes] if self.plan else []
        if not known:
            return ""
        largest = max(known, key=lambda each: each.total_bytes or 0)
        return f", most of it for {largest.term}: {format_bytes(largest.total_bytes)}"

    def _lacking(self) -> list[str]:
        terms = self.plan.terms if self.plan is not None else ()
        return [each.term for each in terms if each.total_bytes is None]

    def _static(self) -> Html:
        terms = self.plan.terms if self.plan is not None else ()
        rows = [
            (
                each.term,
                format_bytes(each.each_bytes),
                "shared by all" if each.shared else format_count(each.count),
                format_bytes(each.total_bytes),
                each.unknown.get("total_bytes", each.formula),
            )
            for each in terms
        ]
        return joined(pictures(self._said, self._words, self._shown), table_html(_COLUMNS, rows))
