"""The compaction lab as a panel: a workload under several profiles, and how their trees grow.

A lab that has not tried anything yet loads no plots: what draws is imported to draw.
"""

from __future__ import annotations

import math
from dataclasses import replace
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from ipywidgets import BoundedFloatText, BoundedIntText, Dropdown, FloatProgress, HBox

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, isolated, joined, plain
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.lab.results import Comparison, Listener, TrialFailed
from kstoolkit.rocksdb.lab.workloads import KINDS, REPLAYED, Workload, chosen_profiles
from kstoolkit.rocksdb.profiles.named import profile_names
from kstoolkit.widgets.panel import (
    FIRST_LOOK_SECONDS,
    Background,
    Newest,
    Panel,
    Replay,
    Shown,
    button,
    field_look,
    table_html,
    tick_box,
    wrapping,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from threading import Event

    from ipywidgets import Widget

    from kstoolkit.rocksdb.lab.results import Moment
    from kstoolkit.rocksdb.profiles.profile import Profile


_COSTS = {
    name.capitalize(): name for name in ("amplification", "stalls", "memory", "latency", "disk")
}
_OVER_TIME = {
    "Disk over time": "disk_bytes",
    "L0 files over time": "level0_files",
    "Write amplification over time": "write_amplification",
    "Written per user byte over time": "written_per_user_byte",
    "Waiting to be compacted over time": "pending_compaction_bytes",
    "Stalls over time": "stall_ms",
    "Memtables over time": "memtable_bytes",
    "Block cache over time": "block_cache_bytes",
}
STEPS = "Levels, step by step"
_WORK = "Written to each level"
TABLE = "Table"
VIEWS = (*_COSTS, STEPS, _WORK, *_OVER_TIME, TABLE)
_MOST_STEPS = 240
_STEP_MS = 250


def step_times(moments: Sequence[Moment]) -> list[int]:
    """Return the times (ms) of the steps of a replay: at most some 240, equally far apart."""
    last = max((each.at_ms for each in moments), default=0)
    apart = _STEP_MS * max(1, -(-last // (_STEP_MS * _MOST_STEPS)))
    return [*range(0, last, apart), last]


def moments_at(moments: Sequence[Moment], at_ms: float) -> list[Moment]:
    """Return the last moment of each trial by a time, or its first if there is none so early."""
    found: dict[str, Moment] = {}
    for each in moments:
        if each.profile not in found or each.at_ms <= at_ms:
            found[each.profile] = each
    return list(found.values())


_LONGEST_NAME = 28
_TABLED = (
    *("writes", "gets", "write_amplification", "written_per_user_byte"),
    *("read_amplification", "space_amplification"),
    *("peak_disk_bytes", "stall_ms", "longest_stall_ms", "put_p50_us", "put_p99_us"),
    *("get_p50_us", "get_p99_us", "compaction_ms", "peak_memtable_bytes"),
    *("peak_block_cache_bytes", "peak_table_readers_bytes"),
)


def _show_view(shown: Shown, view: str, found: Comparison, at_ms: float) -> None:
    """Show a comparison, or what there is of it by now; ``at_ms`` is of its levels' steps."""
    from kstoolkit.plots.axes import height  # noqa: PLC0415 - brings the plots along
    from kstoolkit.plots.lab import (  # noqa: PLC0415 - as above
        FIGURES,
        plot_comparison,
        plot_level_work,
        plot_moments,
        plot_step,
        step_inches,
    )

    wide, low = 7.2, height(0, ["", "", ""])
    if view in _COSTS:
        rows = len(FIGURES[_COSTS[view]]) * (0.4 + len(found))
        inches = wide, low + 0.17 * rows
        shown.draw(lambda ax: plot_comparison(found, figures=_COSTS[view], ax=ax), inches)
    elif view in _OVER_TIME:
        shown.draw(lambda ax: plot_moments(found.series, figure=_OVER_TIME[view], ax=ax), (wide, 3))
    elif view == STEPS and len(found.series):
        moments = moments_at(found.series, at_ms)
        inches = step_inches(moments, found.series)
        shown.draw(lambda ax: plot_step(moments, among=found.series, ax=ax), inches)
    elif view == _WORK:
        inches = wide, height(len(found.levels), [""])
        shown.draw(lambda ax: plot_level_work(found.levels, ax=ax), inches)
    elif view == TABLE:
        shown.put(_trials_table(found))
    else:
        shown.say("No moments yet.")


def _trials_table(found: Comparison) -> Html:
    if not len(found):
        return Html()
    from kstoolkit.plots.axes import with_unit  # noqa: PLC0415 - brings the plots along

    texts = [{each.name: each.text for each in trial.figures()} for trial in found]
    rows = [(with_unit(name), *(told[name] for told in texts)) for name in _TABLED]
    rows.append(("stopped by", *(trial.stopped_by or "nothing" for trial in found)))
    names = ["figure", *(isolated(_short_name(trial.profile)) for trial in found)]
    more = len(found[0].figures()) - len(_TABLED)
    note = f"{counted(len(found), 'trials')}; comparison.to_pandas() has {more} figures more"
    return table_html(names, rows, note)


def _short_name(name: str) -> str:
    """Return the name of a profile as a label or a sentence has it."""
    ends = name if len(name) <= 2 * _LONGEST_NAME else name[:_LONGEST_NAME] + name[-_LONGEST_NAME:]
    seen = plain(ends)
    if len(seen) <= _LONGEST_NAME:
        return seen
    half = _LONGEST_NAME // 2
    return f"{seen[:half]}…{seen[1 - half :]}"


_MOST = 10**12
_KIND_PX = 232
_WHOLE = {
    "writes": ("Writes", 1, "How many rows to write"),
    "keys": ("Keys", 1, "Among how many keys"),
    "value_bytes": ("Value bytes", 1, "How large the values are"),
    "seed": ("Seed", 0, "The same seed gives the same rows"),
}
_PACE = "A pace to hold; 0: as fast as RocksDB takes them"
_PARTS = {
    "reads_per_write": ("Reads/write", _MOST, 0.1, "How many gets stand by a write"),
    "absent_share": ("Absent share", 1, 0.1, "Which share of the gets asks for an absent key"),
    "writes_per_second": ("Writes/s", _MOST, 1_000, _PACE),
}
_OF_ROWS = ("writes", "keys", "value_bytes")  # what rows that are replayed bring with them


def _look(label: str, tooltip: str | None = None, width_px: int = 172) -> dict[str, Any]:
    return field_look(label, 86, width_px, tooltip)


class _WorkloadForm(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """A control for each field of a workload; one that replays rows keeps them."""

    def __init__(self, workload: Workload) -> None:
        self._first = workload
        replayed = workload.kind == REPLAYED
        kinds = (REPLAYED,) if replayed else KINDS
        look = _look("Workload", width_px=_KIND_PX)
        kind = Dropdown(options=kinds, value=workload.kind, disabled=replayed, **look)
        self.controls: dict[str, Widget] = {"kind": kind}
        for name, (label, least, tip) in _WHOLE.items():
            value, fixed = getattr(workload, name), replayed and name in _OF_ROWS
            self.controls[name] = BoundedIntText(
                value=value, min=least, max=max(_MOST, value), disabled=fixed, **_look(label, tip)
            )
        for name, (label, most, step, tip) in _PARTS.items():
            value = getattr(workload, name) or 0
            self.controls[name] = BoundedFloatText(
                value=value, min=0, max=max(most, value), step=step, **_look(label, tip)
            )
        super().__init__(list(self.controls.values()))
        self.add_class("kst-wraps")

    def workload(self) -> Workload:
        told = {name: control.value for name, control in self.controls.items()}
        pace = told["writes_per_second"] or None
        return replace(self._first, **told | {"writes_per_second": pace})

    def take(self, workload: Workload) -> None:
        """Show the fields of a workload, but for rows that are replayed."""
        for name, control in self.controls.items():
            control.value = getattr(workload, name) or 0


class _ProfileChoice(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """A box to tick for each profile."""

    def __init__(self, profiles: Sequence[str | Profile]) -> None:
        own = {each.name: each for each in chosen_profiles(profiles)}
        self._offered: dict[str, str | Profile] = {**own}
        self._offered |= {name: name for name in profile_names() if name not in own}
        self.boxes = {
            name: tick_box(_short_name(name), value=name in own) for name in self._offered
        }
        super().__init__(list(self.boxes.values()))
        self.add_class("kst-wraps")

    def choose(self, *names: str) -> None:
        for name in names:
            if name not in self.boxes:
                message = f"No profile {name!r:.80} is offered."
                raise ConfigurationError(message, hint=f"There are {', '.join(self.boxes)}.")
        for name, box in self.boxes.items():
            box.value = name in names

    def names(self) -> list[str]:
        return [name for name, box in self.boxes.items() if box.value]

    def profiles(self) -> list[str | Profile]:
        return [self._offered[name] for name in self.names()]


_WIDE_PX = 348
_LOOK_SECONDS = 1.0
"""How often a running trial is drawn: more often would take from it what is measured."""


class CompactionLab(Panel):
    """Choose a workload and profiles, run them, and see what each costs and how its levels grow.

    The trials run in processes of their own, while the notebook goes on.

    Parameters
    ----------
    workload
        What to begin with: a workload, the kind of one, or a comparison that was made before.
    profiles
        Which profiles are chosen at first: names, or profiles of one's own, which are then offered
        beside those that have names. By default a comparison's, or Kafka Streams' and Spark's.
    seconds, disk_bytes, folder
        As :func:`~kstoolkit.compare_profiles` takes them.

    Examples
    --------
    >>> with CompactionLab(Workload(writes=2_000, keys=500)) as lab:
    ...     lab.run()
    ...     lab.wait()
    ...     lab
    CompactionLab(uniform, 2,000 writes; kafka_streams, spark: 2 trials)
    """

    def __init__(
        self,
        workload: Workload | str | Comparison | None = None,
        profiles: Sequence[str | Profile] | None = None,
        *,
        seconds: float = 60.0,
        disk_bytes: int = 4 << 30,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        given = workload if isinstance(workload, Comparison) else None
        self._folder = folder
        self._drawing = Lock()
        self._said, self._shown = Shown(), Shown()
        self._trying = _Trying(given, self._tell, self._conclude)
        self._looking, self._opening = Background(self._said.say), Newest(self._said.say)
        self.profiles = _ProfileChoice(_first(given) if profiles is None else profiles)
        self.form = _WorkloadForm(_workload(workload))
        self._make_controls(seconds, disk_bytes)
        super().__init__("Compaction lab", self._rows(), self._static)
        for end in (self._trying.close, self._looking.close, self.replay.stop, self._opening.stop):
            self.on_close(end)
        if given is not None:
            self.replay.take(step_times(given.series))
        self._opening.ask(self._show)
        self._opening.wait(FIRST_LOOK_SECONDS)

    def _make_controls(self, seconds: float, disk_bytes: int) -> None:
        self.seconds = BoundedFloatText(value=seconds, min=0.1, max=1e6, **_look("Seconds"))
        disk_mb = max(disk_bytes >> 20, 1)
        self.disk = BoundedIntText(value=disk_mb, min=1, max=1 << 40, **_look("Disk, MiB"))
        self.button = button("Run", "Try the chosen profiles", self.run)
        self.cancelling = button("Cancel", "End the trials", self.cancel)
        self.cancelling.disabled = True
        self.bar = FloatProgress(max=1.0, **_look("Progress", width_px=_WIDE_PX))
        self.view = Dropdown(options=VIEWS, **_look("Show", width_px=_WIDE_PX))
        self.replay = Replay(self._show, self._said.say)
        self.view.observe(self._show, "value")

    def _rows(self) -> list[Any]:
        trying = wrapping(self.seconds, self.disk, self.button, self.cancelling)
        looking = wrapping(self.view, self.replay)
        return [self.form, self.profiles, trying, self.bar, self._said, looking, self._shown]

    @property
    def comparison(self) -> Comparison | None:
        """What came of the last run; None before its end, and of one that came to nothing.

        Of one that was cancelled, the trials that had ended.
        """
        return self._trying.comparison

    def set(self, **fields: Any) -> None:
        """Change fields of the workload; what makes no sense is said, and changes nothing."""
        with self._said.telling():
            self.form.take(replace(self.form.workload(), **fields))

    def choose(self, *profiles: str) -> None:
        """Choose these of the profiles that are offered, and no others; else it is said."""
        with self._said.telling():
            self.profiles.choose(*profiles)

    def run(self) -> None:
        """Try the chosen profiles, one after the other, unless some are being tried."""
        with self._said.telling():
            self._run(self.form.workload())

    def _run(self, workload: Workload) -> None:
        if self._trying.is_running or self.is_closed:
            return
        self.replay.pause()
        self._set_running(running=True)
        self._looking.every(_LOOK_SECONDS, self._show)
        self._trying.start(
            workload,
            self.profiles.profiles(),
            seconds=self.seconds.value,
            disk_bytes=self.disk.value << 20,
            folder=self._folder,
        )

    def cancel(self) -> None:
        """End the trials; those that have ended are kept."""
        self._trying.cancel()

    def wait(self) -> None:
        """Wait until what was given is drawn, and the trials have ended."""
        self._opening.wait()
        self._trying.wait()

    def __repr__(self) -> str:
        return f"CompactionLab({self._told()})"

    def _told(self) -> str:
        controls = self.form.controls
        writes = counted(controls["writes"].value, "writes")
        tried = self._trying.names or self.profiles.names()
        chosen = ", ".join(_short_name(name) for name in tried)
        what = f"{controls['kind'].value}, {writes}"
        return f"{what}; {chosen or 'no profiles'}: {self._trying.state}"

    def _set_running(self, *, running: bool) -> None:
        self.button.disabled, self.cancelling.disabled = running, not running

    def _tell(self, sentence: str, share: float) -> None:
        self._said.say(sentence)
        self.bar.value = share

    def _conclude(self) -> None:
        """Show what came of it; in the thread of the trials."""
        self._looking.stop()
        found = self._trying.found()
        self.replay.take(step_times(found.series if found else ()))
        self._set_running(running=False)
        self._show()

    def _show(self, _: object = None) -> None:
        found, running = self._trying.found(), self._trying.is_running
        view = self.view.value
        if running and view not in _OVER_TIME:  # others need trials that have ended
            view = STEPS
        replays = view == STEPS and not running
        self.replay.layout.display = "" if replays else "none"
        if found is None:
            self._shown.say("Choose a workload and profiles, and press Run.")
            return
        with self._drawing:  # in the thread of whoever asks: one after the other
            _show_view(self._shown, view, found, self.replay.at_ms if replays else math.inf)

    def _static(self) -> Html:
        found = self._trying.found()
        told = element("p", f"{self._told()}.")
        if found is None or self.view.value == TABLE:
            return joined(told, self._shown.html())
        return joined(told, self._shown.html(), _trials_table(found))


def _workload(given: object) -> Workload:
    match given:
        case Workload():
            return given
        case Comparison():
            return given.workload
        case str():
            return Workload(given)
        case None:
            return Workload()
    message = f"A lab can't begin with {given!r:.80}."
    hint = "Give a Workload, the kind of one, or what compare_profiles() returned."
    raise ConfigurationError(message, hint=hint)


def _first(given: Comparison | None) -> list[str]:
    """Return the names of the profiles of a comparison that have one for everybody, or two."""
    tried = [each.profile for each in given or () if each.profile in profile_names()]
    return tried or ["kafka_streams", "spark"]


_RUNNING = "running"


class _Trying(Listener):
    """A comparison in a thread, and what is known of it by now."""

    def __init__(
        self,
        given: Comparison | None,
        tell: Callable[[str, float], object],
        ended: Callable[[], object],
    ) -> None:
        self.comparison = given
        self.state = "not run yet" if given is None else counted(len(given), "trials")
        self.is_running = False
        self._tell, self._ended = tell, ended
        self._moments: list[Moment] = [] if given is None else [*given.series]
        self._background = Background(lambda sentence: self._tell(sentence, 0))
        self._stop: Event | None = None
        self.names = [each.profile for each in given or ()]
        self._workload: Workload | None = None if given is None else given.workload
        self._is_cancelled = self._is_closed = False

    def start(self, workload: Workload, profiles: Sequence[str | Profile], **limits: Any) -> None:
        """Begin to compare, unless that goes on already."""
        if self.is_running or self._is_closed:
            return
        self._background.wait()  # for the end of one before
        self.comparison, self._moments, self.names = None, [], []
        self._workload, self._is_cancelled = workload, False
        self.state, self.is_running = _RUNNING, True
        self._background.start(lambda stop: self._compare(stop, workload, profiles, limits))

    def cancel(self) -> None:
        self._is_cancelled = True

    def close(self) -> None:
        self._is_closed = True
        self._background.close()

    def wait(self) -> None:
        while self._background.is_busy:
            self._background.wait()

    def found(self) -> Comparison | None:
        """Return what is known by now: trials that have ended, moments of all; None: nothing."""
        if self._workload is None:
            return None
        known: Sequence[Any] = self.comparison or ()
        levels = Records((), "levels") if self.comparison is None else self.comparison.levels
        moments = Records(list(self._moments), "moments")
        return Comparison(self._workload, list(known), moments, levels)

    def begin(self, workload: Workload, profiles: Sequence[str]) -> None:
        self._workload, self.names = workload, list(profiles)

    def hear(self, moment: Moment) -> None:
        self._moments.append(moment)
        writes = self._workload.writes if self._workload else moment.writes
        before, tried = self.names.index(moment.profile), len(self.names)
        by_now = f"{moment.writes:,} of {writes:,} writes"
        done = "all written" if moment.writes >= writes else by_now
        name = _short_name(moment.profile)
        said = f"Trial {before + 1} of {tried}, {name}: {done}."
        self._tell(said, (before + min(moment.writes / writes, 1)) / tried)

    def is_cancelled(self) -> bool:
        return self._is_cancelled or (self._stop is not None and self._stop.is_set())

    def _compare(self, stop: Event, workload: Workload, profiles: Any, limits: Any) -> None:
        from kstoolkit.rocksdb.lab.comparing import compare_profiles  # noqa: PLC0415 - only to try

        began, self._stop = monotonic(), stop
        try:
            self.comparison = compare_profiles(
                workload, profiles, progress=False, listener=self, **limits
            )
            self.state = counted(len(self.comparison), "trials")
            self._tell(_told(self.comparison, monotonic() - began), 1)
        except TrialFailed as failed:
            self._keep(failed)
        finally:
            self.is_running = False
            self.state = "failed" if self.state == _RUNNING else self.state
            self._ended()

    def _keep(self, failed: TrialFailed) -> None:
        self.comparison = failed.found
        kept = len(failed.found or ())
        cause = "cancelled" if self.is_cancelled() else "failed"
        self.state = f"{cause} after {counted(kept, 'trials')}"
        self._tell(f"{failed} {counted(kept, 'trials')} had ended before.", 0)


def _told(found: Comparison, took_s: float) -> str:
    stopped = [each for each in found if each.stopped_by]
    limits = {"time": "its time was up", "disk": "it took more disk than it may"}
    whys = [
        f"{_short_name(each.profile)} was stopped: {limits[each.stopped_by or '']}"
        for each in stopped
    ]
    return "; ".join([f"{counted(len(found), 'trials')} in {took_s:.1f} s", *whys]) + "."
