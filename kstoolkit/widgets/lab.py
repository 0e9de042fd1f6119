"""The compaction lab as a panel: a workload under several profiles, and how their trees grow."""

from __future__ import annotations

import math
from dataclasses import replace
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from ipywidgets import (
    BoundedFloatText,
    BoundedIntText,
    Button,
    Checkbox,
    Dropdown,
    FloatProgress,
    HBox,
    Layout,
)

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, joined
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.lab.results import Comparison, Listener, TrialFailed
from kstoolkit.rocksdb.lab.workloads import KINDS, REPLAYED, Workload, chosen_profiles
from kstoolkit.rocksdb.profiles.named import profile_names
from kstoolkit.widgets.labviews import (
    STEPS,
    TABLE,
    VIEWS,
    short_name,
    show_view,
    step_times,
    trials_table,
    view_by_now,
)
from kstoolkit.widgets.panel import (
    FIRST_LOOK_SECONDS,
    Background,
    Newest,
    Panel,
    Replay,
    Shown,
    wrapping,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from threading import Event

    from ipywidgets import Widget

    from kstoolkit.rocksdb.lab.results import Moment
    from kstoolkit.rocksdb.profiles.profile import Profile


_MOST = 10**12
_KIND_PX = 232
_WHOLE = {
    "writes": ("Writes", 1, "How many rows to write"),
    "keys": ("Keys", 1, "Among how many keys"),
    "value_bytes": ("Value bytes", 1, "How large the values are"),
    "seed": ("Seed", 0, "The same seed gives the same rows"),
}
_PARTS = {
    "reads_per_write": ("Reads/write", _MOST, 0.1, "How many gets stand by a write"),
    "absent_share": ("Absent share", 1, 0.1, "Which share of the gets asks for an absent key"),
    "writes_per_second": (
        *("Writes/s", _MOST, 1_000),
        "A pace to hold; 0: as fast as RocksDB takes them",
    ),
}
_OF_ROWS = ("writes", "keys", "value_bytes")
"""What rows that are replayed bring with them."""


def _field_look(width_px: int = 172) -> dict[str, Any]:
    """Return how a field looks: its label and itself as wide as those above and below."""
    return {"style": {"description_width": "86px"}, "layout": Layout(width=f"{width_px}px")}


class _WorkloadForm(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """A control for each field of a workload; one that replays rows keeps them."""

    def __init__(self, workload: Workload) -> None:
        self._first = workload
        replayed = workload.kind == REPLAYED
        kinds = (REPLAYED,) if replayed else KINDS
        self.controls: dict[str, Widget] = {
            "kind": Dropdown(
                options=kinds,
                value=workload.kind,
                description="Workload",
                disabled=replayed,
                **_field_look(_KIND_PX),
            )
        }
        for name, (label, least, tip) in _WHOLE.items():
            self.controls[name] = BoundedIntText(
                value=getattr(workload, name),
                min=least,
                max=max(_MOST, getattr(workload, name)),
                description=label,
                tooltip=tip,
                disabled=replayed and name in _OF_ROWS,
                **_field_look(),
            )
        for name, (label, most, step, tip) in _PARTS.items():
            value = getattr(workload, name) or 0
            self.controls[name] = BoundedFloatText(
                value=value,
                min=0,
                max=max(most, value),
                step=step,
                description=label,
                tooltip=tip,
                **_field_look(),
            )
        super().__init__(list(self.controls.values()))
        self.add_class("kst-wraps")

    def workload(self) -> Workload:
        """Return the workload that the controls say."""
        told = {name: control.value for name, control in self.controls.items()}
        return replace(
            self._first, **told | {"writes_per_second": told["writes_per_second"] or None}
        )

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
            name: Checkbox(
                value=name in own,
                description=short_name(name),
                indent=False,
                layout=Layout(width="auto"),
            )
            for name in self._offered
        }
        super().__init__(list(self.boxes.values()))
        self.add_class("kst-wraps")

    def choose(self, *names: str) -> None:
        """Tick these, and no others."""
        for name in names:
            if name not in self.boxes:
                message = f"No profile {name!r:.80} is offered."
                raise ConfigurationError(message, hint=f"There are {', '.join(self.boxes)}.")
        for name, box in self.boxes.items():
            box.value = name in names

    def names(self) -> list[str]:
        """Return the names of those that are ticked."""
        return [name for name, box in self.boxes.items() if box.value]

    def profiles(self) -> list[str | Profile]:
        """Return those that are ticked."""
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
        self.seconds = BoundedFloatText(
            value=seconds, min=0.1, max=1e6, description="Seconds", **_field_look()
        )
        self.disk = BoundedIntText(
            value=max(disk_bytes >> 20, 1),
            min=1,
            max=1 << 40,
            description="Disk, MiB",
            **_field_look(),
        )
        self.button = Button(description="Run", tooltip="Try the chosen profiles")
        self.cancelling = Button(description="Cancel", tooltip="End the trials", disabled=True)
        self.bar = FloatProgress(description="Progress", max=1.0, **_field_look(_WIDE_PX))
        self.view = Dropdown(options=VIEWS, description="Show", **_field_look(_WIDE_PX))
        self.replay = Replay(self._show, self._said.say)
        self.button.on_click(lambda _: self.run())
        self.cancelling.on_click(lambda _: self.cancel())
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
        try:
            self.form.take(replace(self.form.workload(), **fields))
        except ConfigurationError as error:
            self._said.say(str(error))

    def choose(self, *profiles: str) -> None:
        """Choose these of the profiles that are offered, and no others; else it is said."""
        try:
            self.profiles.choose(*profiles)
        except ConfigurationError as error:
            self._said.say(str(error))

    def run(self) -> None:
        """Try the chosen profiles, one after the other, unless some are being tried."""
        try:
            workload = self.form.workload()
        except ConfigurationError as error:
            self._said.say(str(error))
            return
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
        chosen = ", ".join(short_name(name) for name in tried)
        return (
            f"{controls['kind'].value}, {writes}; {chosen or 'no profiles'}: {self._trying.state}"
        )

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
        view = view_by_now(self.view.value) if running else self.view.value
        replays = view == STEPS and not running
        self.replay.layout.display = "" if replays else "none"
        if found is None:
            self._shown.say("Choose a workload and profiles, and press Run.")
            return
        with self._drawing:  # in the thread of whoever asks: one after the other
            show_view(self._shown, view, found, self.replay.at_ms if replays else math.inf)

    def _static(self) -> Html:
        found = self._trying.found()
        told = element("p", f"{self._told()}.")
        if found is None or self.view.value == TABLE:
            return joined(told, self._shown.html())
        return joined(told, self._shown.html(), trials_table(found))


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
        self._background = Background(self._fail)
        self._stop: Event | None = None
        self.names = [each.profile for each in given or ()]
        self._workload: Workload | None = None if given is None else given.workload
        self._is_cancelled = self._is_closed = False

    def start(self, workload: Workload, profiles: Sequence[str | Profile], **limits: Any) -> bool:
        """Begin to compare, unless that goes on already; return whether it began."""
        if self.is_running or self._is_closed:
            return False
        self._background.wait()  # for the end of one before
        self.comparison, self._moments, self.names = None, [], []
        self._workload, self._is_cancelled = workload, False
        self.state, self.is_running = _RUNNING, True
        return self._background.start(lambda stop: self._compare(stop, workload, profiles, limits))

    def cancel(self) -> None:
        """Have it end soon; trials that have ended are kept."""
        self._is_cancelled = True

    def close(self) -> None:
        """End it, wait for that, and begin no other."""
        self._is_closed = True
        self._background.close()

    def wait(self) -> None:
        """Wait until it has ended by itself."""
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
        """Keep what is tried."""
        self._workload, self.names = workload, list(profiles)

    def hear(self, moment: Moment) -> None:
        """Keep the moment, and tell of it."""
        self._moments.append(moment)
        writes = self._workload.writes if self._workload else moment.writes
        before, tried = self.names.index(moment.profile), len(self.names)
        done = (
            "all written" if moment.writes >= writes else f"{moment.writes:,} of {writes:,} writes"
        )
        name = short_name(moment.profile)
        said = f"Trial {before + 1} of {tried}, {name}: {done}."
        self._tell(said, (before + min(moment.writes / writes, 1)) / tried)

    def is_cancelled(self) -> bool:
        """Return whether somebody wants it to end."""
        return self._is_cancelled or (self._stop is not None and self._stop.is_set())

    def _compare(
        self,
        stop: Event,
        workload: Workload,
        profiles: Sequence[str | Profile],
        limits: dict[str, Any],
    ) -> None:
        from kstoolkit.rocksdb.lab.comparing import (  # noqa: PLC0415 - only to try
            compare_profiles,
        )

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

    def _fail(self, sentence: str) -> None:
        self._tell(sentence, 0)


def _told(found: Comparison, took_s: float) -> str:
    stopped = [each for each in found if each.stopped_by]
    limits = {"time": "its time was up", "disk": "it took more disk than it may"}
    whys = [
        f"{short_name(each.profile)} was stopped: {limits[each.stopped_by or '']}"
        for each in stopped
    ]
    return "; ".join([f"{counted(len(found), 'trials')} in {took_s:.1f} s", *whys]) + "."
