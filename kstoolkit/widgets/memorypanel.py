"""Memory by the formula, as sliders say, and what was measured beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import Button

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.markup import Html, element, joined
from kstoolkit.records import counted
from kstoolkit.rocksdb.memory.planning import profile_given
from kstoolkit.units import format_bytes, format_count
from kstoolkit.widgets.memorycontrols import MemoryControls
from kstoolkit.widgets.newest import Newest
from kstoolkit.widgets.panel import Panel
from kstoolkit.widgets.showing import Shown, table_html

if TYPE_CHECKING:
    import os

    from kstoolkit.rocksdb.memory.planning import MemoryPlan
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.widgets.memorymeasured import Measured


_COLUMNS = ("term", "each", "times", "in all", "how")


class MemoryPanel(Panel):
    """Say how many stores there are and what they are opened with, and see what memory they need.

    Each size has a list with its label, which the keyboard works, and a slider for the mouse;
    :meth:`set` takes the same by name.

    Parameters
    ----------
    thing
        What to measure beside the formula: a store that is open, or the folder of one; a live run;
        or what ``memory()`` or ``spark_memory()`` returned. Or a plan, to compare with. None: the
        formula alone.
    profile
        The profile to begin with, or the name of one; None: that of the store or run, or Kafka
        Streams' own.

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
        self,
        thing: Any = None,
        *,
        profile: Profile | str | os.PathLike[str] | None = None,
    ) -> None:
        self._thing: Any = thing
        self._measured: Measured | None = None
        self._keeps_profile = profile is not None
        self._said, self._words, self._shown = Shown(), Shown(), Shown()
        self._newest = Newest(self._tell)
        self._measuring = Newest(self._tell)
        self.plan: MemoryPlan | None = None
        self.form = MemoryControls(profile_given("kafka_streams" if profile is None else profile))
        for control in self.form.controls.values():
            control.observe(self._change, "value")
        self.again = Button(description="Measure again")
        self.again.on_click(lambda _: self.measure())
        self.again.layout.display = "none" if thing is None else ""
        children = [self.form, self.again, self._said, self._words, self._shown]
        super().__init__("Memory of RocksDB", children, self._static)
        self.on_close(self._end)
        self._change()
        if thing is not None:
            self._measuring.ask(lambda: self._measure(takes=True))

    def set(self, **told: Any) -> None:
        """Give controls their values; what makes no sense is said.

        Parameters
        ----------
        **told
            As :func:`kstoolkit.plan_memory` names them: ``partitions``, ``segments``, ``stores``,
            ``column_families``, ``profile``, ``memtable_bytes``, ``memtables``,
            ``block_cache_bytes``, ``keys``, ``key_bytes``, ``value_bytes``, ``iterators``; and
            ``blocks_in_cache``, whether index and filter blocks are in the cache.
        """
        try:
            self.form.tell(**told)
        except KstoolkitError as error:
            self._tell(str(error))

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
            self._tell(str(error))
            return
        told = [f"{self._in_words()}{self._largest()}.", self._not_in_it()]
        told += [] if self._measured is None else [self._measured.words]
        self._words.put(joined(*(element("p", each) for each in told if each)))
        self._newest.ask(self._draw)

    def _draw(self) -> None:
        from kstoolkit.plots.memory import draw_memory  # noqa: PLC0415 - draws: in its thread
        from kstoolkit.widgets.memorymeasured import bar_of_plan  # noqa: PLC0415 - as above

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
        least = "at least" if self._lacking() else "at most"
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

    def _not_in_it(self) -> str:
        lacking = self._lacking()
        return f"Not in it, as unknown: {', '.join(lacking)}." if lacking else ""

    def _tell(self, why: str) -> None:
        self._said.say(" ".join(why.splitlines()))

    def _end(self) -> None:
        for newest in (self._measuring, self._newest):
            newest.stop()

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
        return joined(
            *(each.html() for each in (self._said, self._words, self._shown)),
            table_html(_COLUMNS, rows),
        )
