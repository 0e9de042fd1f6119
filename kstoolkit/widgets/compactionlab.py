"""The compaction lab as a panel: a workload under several profiles, and how their trees grow."""

from __future__ import annotations

import math
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from ipywidgets import (
    BoundedFloatText,
    BoundedIntText,
    Button,
    Dropdown,
    FloatProgress,
    HBox,
)

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, joined
from kstoolkit.records import counted
from kstoolkit.rocksdb.lab.comparing import Comparison
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.rocksdb.profiles.named import profile_names
from kstoolkit.widgets.background import Background
from kstoolkit.widgets.labviews import STEPS, TABLE, VIEWS, step_times, view_by_now
from kstoolkit.widgets.newest import Newest
from kstoolkit.widgets.panel import Panel
from kstoolkit.widgets.profilechoice import ProfileChoice, short_name
from kstoolkit.widgets.replay import Replay
from kstoolkit.widgets.showing import Shown
from kstoolkit.widgets.trying import Trying
from kstoolkit.widgets.workloadform import WorkloadForm, field_look

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from kstoolkit.rocksdb.profiles.profile import Profile


_WIDE_PX = 348
_FIRST_LOOK_SECONDS = 0.6
"""How long a cell may wait, so that its saved picture shows the comparison that was given."""
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
        self._trying = Trying(given, self._tell, self._conclude)
        self._looking, self._opening = Background(self._said.say), Newest(self._said.say)
        self.profiles = ProfileChoice(_first(given) if profiles is None else profiles)
        self.form = WorkloadForm(_workload(workload))
        self._make_controls(seconds, disk_bytes)
        super().__init__("Compaction lab", self._rows(), self._static)
        for end in (self._trying.close, self._looking.close, self.replay.stop, self._opening.stop):
            self.on_close(end)
        if given is not None:
            self.replay.take(step_times(given.series))
        self._opening.ask(self._show)
        self._opening.wait(_FIRST_LOOK_SECONDS)

    def _make_controls(self, seconds: float, disk_bytes: int) -> None:
        self.seconds = BoundedFloatText(
            value=seconds, min=0.1, max=1e6, description="Seconds", **field_look()
        )
        self.disk = BoundedIntText(
            value=max(disk_bytes >> 20, 1),
            min=1,
            max=1 << 40,
            description="Disk, MiB",
            **field_look(),
        )
        self.button = Button(description="Run", tooltip="Try the chosen profiles")
        self.cancelling = Button(description="Cancel", tooltip="End the trials", disabled=True)
        self.bar = FloatProgress(description="Progress", max=1.0, **field_look(_WIDE_PX))
        self.view = Dropdown(options=VIEWS, description="Show", **field_look(_WIDE_PX))
        self.replay = Replay(self._show, self._said.say)
        self.button.on_click(lambda _: self.run())
        self.cancelling.on_click(lambda _: self.cancel())
        self.view.observe(self._show, "value")

    def _rows(self) -> list[Any]:
        rows = [
            HBox([self.seconds, self.disk, self.button, self.cancelling]),
            HBox([self.view, self.replay]),
        ]
        for row in rows:
            row.add_class("kst-wraps")
        return [self.form, self.profiles, rows[0], self.bar, self._said, rows[1], self._shown]

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
        from kstoolkit.widgets.labdrawing import show_view  # noqa: PLC0415 - brings the plots along

        with self._drawing:  # in the thread of whoever asks: one after the other
            show_view(self._shown, view, found, self.replay.at_ms if replays else math.inf)

    def _static(self) -> Html:
        found = self._trying.found()
        told = element("p", f"{self._told()}.")
        if found is None or self.view.value == TABLE:
            return joined(told, self._shown.html())
        from kstoolkit.widgets.labdrawing import trials_table  # noqa: PLC0415 - as above

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
