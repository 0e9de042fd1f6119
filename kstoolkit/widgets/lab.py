"""The compaction lab as a panel: a workload under several profiles, and how their trees grow."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from threading import Event, RLock
from time import monotonic
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, joined, plain
from kstoolkit.plots.names import capital, printed, words_of
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.lab.results import Comparison, Listener, TrialFailed
from kstoolkit.rocksdb.lab.workloads import KINDS, REPLAYED, Workload, chosen_profiles
from kstoolkit.rocksdb.profiles.named import profile_names
from kstoolkit.units import format_bytes, parse_bytes, parse_count
from kstoolkit.views import parts
from kstoolkit.widgets.panel import Background, Face, Panel

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from kstoolkit.rocksdb.lab.results import Moment
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.views.parts import Part, Point

    Course = list[list[Moment]]

_PLACES = ("workload", "profiles", "run", "said", "least", "courses", "step", "levels", "trials")
_COURSES = (
    *("disk_bytes", "write_amplification", "written_per_user_byte", "level0_files"),
    *("pending_compaction_bytes", "stall_ms", "memtable_bytes", "block_cache_bytes"),
)
_LAST = ("writes", "write_amplification", "written_per_user_byte", "stall_ms")
_HIGHEST = ("disk_bytes", "memtable_bytes", "block_cache_bytes", "table_readers_bytes")
_TABLED = (
    *("writes", "gets", "write_amplification", "written_per_user_byte"),
    *("read_amplification", "space_amplification", "peak_disk_bytes", "stall_ms"),
    *("longest_stall_ms", "put_p50_us", "put_p99_us", "get_p50_us", "get_p99_us"),
    *("compaction_ms", "peak_memtable_bytes", "peak_block_cache_bytes"),
    *("peak_table_readers_bytes",),
)
_COSTLY = ("peak_disk_bytes", "written_per_user_byte", "stall_ms", "put_p99_us")
_MOST_POINTS = 240
_ALIKE, _ENDLESS = 1.05, 1e9
"""How many times the least the most may be without a difference that is worth a chart."""


def _courses_of(found: Comparison) -> dict[str, Course]:
    """Return each trial's moments, at most 240 times some that are shown as one point."""
    of: dict[str, list[Moment]] = {}
    for each in found.series:
        of.setdefault(each.profile, []).append(each)
    size = -(-max(map(len, of.values()), default=1) // _MOST_POINTS)
    return {
        name: [some[at : at + size] for at in range(0, len(some), size)]
        for name, some in of.items()
    }


def _lines(of: dict[str, Course], *, is_running: bool) -> Part:
    """Return charts of the figures that the profiles differ in, and of the others a sentence."""
    charts, alike = [], []
    for figure in _COURSES:
        drawn = [[_highest(figure, some) for some in course] for course in of.values()]
        label, why = capital(words_of(figure)), _no_difference(drawn, is_running=is_running)
        if why:
            alike.append(f"{label}: {why}.")
        else:
            charts.append((label, drawn))
    named = [(_short(name), [round(some[-1].at_ms / 1e3, 2) for some in of[name]]) for name in of]
    return parts.lines("Courses", named, charts, unit=" s", alike=alike)


def _highest(figure: str, moments: list[Moment]) -> Point:
    known = [value for each in moments if (value := getattr(each, figure)) is not None]
    return (max(known), printed(figure, max(known))) if known else None


def _no_difference(drawn: list[list[Point]], *, is_running: bool) -> str:
    """Return why a chart would show nothing; empty if it does show something."""
    known = [[each for each in points if each] for points in drawn]
    every = sorted(each for points in known for each in points)
    if not every:
        return "unknown at every moment"
    if every[0][1] == every[-1][1]:
        return f"{every[0][1]} at every moment, under each profile"
    if is_running or len(known) == 1 or not all(known):
        return ""
    ends = [points[-1][0] for points in known], [max(points)[0] for points in known]
    is_alike = all(_times(each) <= _ALIKE for each in ends)
    return f"hardly a difference, up to {every[-1][1]} under each profile" if is_alike else ""


def _times(values: Sequence[float]) -> float:
    """Return how many times the least the most is: endless, if the least is nothing."""
    least, most = min(values, default=0), max(values, default=0)
    return most / least if least > 0 else _ENDLESS if most else 1.0


def _least(found: Comparison) -> Part:
    """Say which profile has the least of what costs most, where that makes a difference."""
    told = []
    for figure in _COSTLY:
        known = [(getattr(each, figure), each.profile) for each in found]
        known = sorted(each for each in known if each[0] is not None)
        if len(known) > 1 and _times([value for value, _ in known]) > _ALIKE:
            (least, who), (most, _) = known[0], known[-1]
            beside = f"(up to {printed(figure, most)})"
            told.append(f"{words_of(figure)} {printed(figure, least)} with {_short(who)} {beside}")
    return parts.sentence(f"The least {'; '.join(told)}.") if told else {}


def _trials(found: Comparison, of: dict[str, Course], state: str) -> Part:
    """Return each figure under each profile; of one that came to no end, what was seen of it."""
    told = {each.profile: {name: getattr(each, name) for name in _TABLED} for each in found}
    stops = {each.profile: each.stopped_by or "nothing" for each in found}
    for name in of.keys() - told.keys():
        seen = [each for some in of[name] for each in some]
        told[name] = {each: getattr(seen[-1], each) for each in _LAST}
        told[name] |= {f"peak_{each}": max(getattr(m, each) for m in seen) for each in _HIGHEST}
        stops[name] = state
    labels = [*(capital(words_of(each)) for each in _TABLED), "Stopped by"]
    columns = [parts.words("figure", labels, width="minmax(12em, 2fr)")]
    for name, figures in told.items():
        values = [figures.get(each) for each in _TABLED]
        texts = [
            "unknown" if value is None else printed(figure, value)
            for figure, value in zip(_TABLED, values, strict=True)
        ]
        columns.append(_numbers(_short(name), [*values, None], [*texts, stops[name]]))
    if len(told) > 1:
        known = [[f[name] for f in told.values() if f.get(name) is not None] for name in _TABLED]
        apart = [_times(each) for each in known]
        texts = [f"{each:,.3g} times" if _ALIKE < each < _ENDLESS else "" for each in apart]
        columns.append(_numbers("most / least", [*apart, 0], [*texts, ""]))
    return parts.table("Trials", "figures", columns) if told else {}


def _numbers(name: str, values: list[Any], texts: list[str]) -> Part:
    made: Part = {"kind": "number", "name": name, "label": name, "values": values, "texts": texts}
    made |= {"as_is": True}  # a profile's name
    return made | {"width": parts.width_of(name, texts)}


def _levels(found: Comparison, of: dict[str, Course], at_ms: float) -> Part:
    """Return what each level of each trial held by a time, or at its first moment."""
    rows = []
    for name, course in of.items():
        seen = [each for some in course for each in some]
        at = [each for each in seen if each.at_ms <= at_ms or each is seen[0]][-1]
        levels = [
            (f"L{level}", size, f"{format_bytes(size)}, {counted(files, 'files')}")
            for level, (size, files) in enumerate(zip(at.level_bytes, at.level_files, strict=True))
        ]
        text = f"{format_bytes(sum(at.level_bytes))} in {counted(sum(at.level_files), 'files')}, "
        text += f"{format_bytes(at.memtable_bytes)} in memtables, "
        text += f"{format_bytes(at.pending_compaction_bytes)} to compact"
        rows.append((_short(name), text, levels))
    return parts.bars("Levels", rows, most=max(sum(each.level_bytes) for each in found.series))


_LONGEST_NAME = 28


def _short(name: str) -> str:
    ends = name if len(name) <= 2 * _LONGEST_NAME else name[:_LONGEST_NAME] + name[-_LONGEST_NAME:]
    seen, half = plain(ends), _LONGEST_NAME // 2
    return seen if len(seen) <= _LONGEST_NAME else f"{seen[:half]}…{seen[1 - half :]}"


_OF_ROWS = ("writes", "keys", "value_bytes")  # what rows that are replayed bring with them
_OF_GETS = ("reads_per_write", "absent_share", "writes_per_second", "seed")
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
        self.workload = _workload(workload)
        self._limits = {"seconds": seconds, "disk_bytes": disk_bytes}
        self._folder, self._at_ms, self._drawing = folder, float("inf"), RLock()
        names = profile_names()
        tried = [each.profile for each in given or () if each.profile in names] or names[:2]
        begun = chosen_profiles(tried if profiles is None else profiles)
        own: dict[str, str | Profile] = {each.name: each for each in begun}
        self._offered = own | {name: name for name in names if name not in own}
        self._chosen = [*own]
        self.face = Face([_PLACES], self._heard)
        self._trying = _Trying(given, self._tell, self._conclude)
        self._looking = Background(self._tell)
        super().__init__("Compaction lab", [self.face], self._static)
        self.on_close(self._trying.close)
        self.on_close(self._looking.close)
        self._tell("" if given else "Choose a workload and profiles, and press Run.")
        self._show()

    @property
    def comparison(self) -> Comparison | None:
        """What came of the last run; None before its end, and of one that came to nothing.

        Of one that was cancelled, the trials that had ended.
        """
        return self._trying.comparison

    def set(self, **fields: Any) -> None:
        """Change the workload, or limits; what makes no sense is said, and changes nothing."""
        with self.face.telling("said"):
            self._set(fields)

    def _set(self, fields: dict[str, Any]) -> None:
        limits = {name: fields.pop(name) for name in self._limits.keys() & fields.keys()}
        self.workload = replace(self.workload, **fields)
        self._limits |= limits
        self._offer()

    def choose(self, *profiles: str) -> None:
        """Choose these of the profiles that are offered, and no others; else it is said."""
        wrong = [name for name in profiles if name not in self._offered]
        if wrong:
            there = ", ".join(map(_short, self._offered))
            self._tell(f"No profile {wrong[0]!r:.80} is offered. There are {there}.")
            return
        self._chosen = [name for name in self._offered if name in profiles]
        self._offer()

    def run(self) -> None:
        """Try the chosen profiles, one after the other, unless some are being tried."""
        if not (self._trying.is_running or self.is_closed):
            self._at_ms, chosen = float("inf"), [self._offered[name] for name in self._chosen]
            self._trying.start(self.workload, chosen, folder=self._folder, **self._limits)
            self._looking.every(_LOOK_SECONDS, self._show)

    def cancel(self) -> None:
        """End the trials; those that have ended are kept, and what was seen of the others."""
        self._trying.cancelled.set()

    def step(self, at_ms: float) -> None:
        """Look at the levels as they were after so many milliseconds."""
        self._at_ms = at_ms
        self._show_levels()

    def wait(self) -> None:
        """Wait until the trials have ended."""
        self._trying.wait()

    def __repr__(self) -> str:
        return f"CompactionLab({self._told()})"

    def _told(self) -> str:
        chosen = ", ".join(map(_short, self._trying.names or self._chosen)) or "no profiles"
        writes = counted(self.workload.writes, "writes")
        return f"{self.workload.kind}, {writes}; {chosen}: {self._trying.state}"

    def _heard(self, told: dict[str, Any]) -> None:
        match told:
            case {"field": ["step", _, int(at_ms)]}:
                self.step(at_ms)
            case {"at": [_, float() | int() as seconds]}:
                self.step(seconds * 1e3)
            case {"field": [_, str(name), str(text)]}:
                self._tell("")
                with self.face.telling("said"):
                    self._set({name: _read(name, text)})
                self.face.put("workload", self._form({name: text}))  # so that it is put back
                self._offer()
            case {"pressed": ["profiles", str(name)]}:
                self.choose(*({*self._chosen} ^ {name}))
            case {"pressed": ["run", "run"]}:
                self.run()
            case {"pressed": ["run", _]}:
                self.cancel()

    def _tell(self, sentence: str, share: float | None = None) -> None:
        self.face.put("said", parts.said(sentence, share))

    def _conclude(self) -> None:
        """Show what came of it; in the thread of the trials."""
        self._looking.stop()
        self._show()

    def _offer(self) -> None:
        running = self._trying.is_running
        chips = [
            {"name": name, "label": _short(name), "pressed": name in self._chosen, "chip": True}
            for name in self._offered
        ]
        run = {"name": "run", "label": "Run", "disabled": running}
        cancel = {"name": "cancel", "label": "Cancel", "disabled": not running}
        self.face.show(
            workload=self._form({}),
            profiles=parts.buttons("Profiles", *chips, head=True),
            run=parts.buttons("Trials", run, cancel),
        )

    def _form(self, typed: dict[str, str]) -> Part:
        replayed = self.workload.kind == REPLAYED
        kinds = [(each, each) for each in ((REPLAYED,) if replayed else KINDS)]
        look = {"type": "choice", "options": kinds, "disabled": replayed}
        made = [parts.field("kind", "Workload", self.workload.kind, **look)]
        for name in (*_OF_ROWS, *_OF_GETS, *self._limits):
            value = self._limits.get(name, getattr(self.workload, name, None))
            text, fixed = typed.get(name, _typed(name, value)), replayed and name in _OF_ROWS
            label = capital(name.replace("disk_bytes", "disk").replace("_", " "))
            made.append(parts.field(name, label, text, disabled=fixed))
        return parts.form("Workload", *made)

    def _show(self) -> None:
        with self._drawing, self.face.hold_sync():
            found = self._trying.found()
            of = _courses_of(found)
            self._offer()
            self.face.put("courses", of and _lines(of, is_running=self._trying.is_running))
            self.face.put("least", _least(found))
            self.face.put("trials", _trials(found, of, self._trying.state.partition(" ")[0]))
            self._show_levels()

    def _show_levels(self) -> None:
        found = self._trying.found()
        of = _courses_of(found)
        ends = ([some[-1].at_ms for some in course] for course in of.values())
        times = max(ends, key=max, default=[])
        if times:
            at = min(times, key=lambda each: abs(each - min(self._at_ms, times[-1])))
            options = [(each, f"{each / 1e3:.2f} s") for each in times]
            slider = parts.field("at", "Levels after", at, type="slider", options=options)
            step = {} if self._trying.is_running else parts.form("Step", slider)
            self.face.show(step=step, levels=_levels(found, of, at))
            self.face.mark("courses", round(at / 1e3, 2))

    def _static(self) -> Html:
        found = self._trying.found()
        drawn = (each for each in (found, found.series) if len(each))
        return joined(element("p", f"{self._told()}."), self.face.still(*drawn))


def _typed(name: str, value: float | None) -> str:
    if name == "disk_bytes":
        return format_bytes(value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _read(name: str, text: str) -> Any:
    if name in {"kind", "disk_bytes"}:
        return text if name == "kind" else parse_bytes(text)
    number = parse_count(text) if text.strip() not in {"", "0"} else 0
    told = int(number) if number == int(number) else number
    return None if name == "writes_per_second" and not told else told


def _workload(given: object) -> Workload:
    if given is None or isinstance(given, str):
        return Workload(given or "uniform")
    if isinstance(given, Workload | Comparison):
        return given if isinstance(given, Workload) else given.workload
    message = f"A lab can't begin with {given!r:.80}."
    hint = "Give a Workload, the kind of one, or what compare_profiles() returned."
    raise ConfigurationError(message, hint=hint)


class _Trying(Listener):
    """A comparison in a thread, and what is known of it by now."""

    def __init__(
        self, given: Comparison | None, tell: Callable[..., object], ended: Callable[[], object]
    ) -> None:
        self.comparison, self._moments = given, [] if given is None else [*given.series]
        self._workload = Workload() if given is None else given.workload
        self.state = "not run yet" if given is None else counted(len(given), "trials")
        self.names = [each.profile for each in given or ()]
        self.is_running, self.cancelled, self._stop = False, Event(), Event()
        self._tell, self._ended, self._background = tell, ended, Background(tell)

    def start(self, workload: Workload, profiles: Sequence[str | Profile], **limits: Any) -> None:
        self._background.wait()  # for the end of one before
        self.comparison, self._moments, self.names = None, [], []
        self._workload, self.state, self.is_running = workload, "running", True
        self.cancelled.clear()
        self._background.start(partial(self._compare, profiles, limits))

    def close(self) -> None:
        self._background.close()

    def wait(self) -> None:
        while self._background.is_busy:
            self._background.wait()

    def found(self) -> Comparison:
        """Return what is known by now: trials that have ended, and moments of all."""
        levels = Records((), "levels") if self.comparison is None else self.comparison.levels
        moments = Records([*self._moments], "moments")
        return Comparison(self._workload, [*(self.comparison or ())], moments, levels)

    def begin(self, workload: Workload, profiles: Sequence[str]) -> None:
        self._workload, self.names = workload, list(profiles)

    def hear(self, moment: Moment) -> None:
        self._moments.append(moment)
        writes, before = self._workload.writes, self.names.index(moment.profile)
        by_now = f"{moment.writes:,} of {writes:,} writes"
        done = "all written" if moment.writes >= writes else by_now
        said = f"Trial {before + 1} of {len(self.names)}, {_short(moment.profile)}: {done}."
        self._tell(said, (before + min(moment.writes / writes, 1)) / len(self.names))

    def is_cancelled(self) -> bool:
        return self.cancelled.is_set() or self._stop.is_set()

    def _compare(self, profiles: Sequence[str | Profile], limits: Any, stop: Event) -> None:
        from kstoolkit.rocksdb.lab.comparing import compare_profiles  # noqa: PLC0415 - only to try

        began, self._stop = monotonic(), stop
        try:
            self.comparison = compare_profiles(
                self._workload, profiles, progress=False, listener=self, **limits
            )
            self.state = counted(len(self.comparison), "trials")
            self._tell(_told(self.comparison, monotonic() - began))
        except TrialFailed as failed:
            self.comparison, kept = failed.found, counted(len(failed.found or ()), "trials")
            self.state = f"{'cancelled' if self.is_cancelled() else 'failed'} after {kept}"
            self._tell(f"{failed} {kept} had ended before.")
        finally:
            self.is_running = False
            self.state = "failed" if self.state == "running" else self.state
            self._ended()


def _told(found: Comparison, took_s: float) -> str:
    limits = {"time": "its time was up", "disk": "it took more disk than it may"}
    stopped = [each for each in found if each.stopped_by]
    whys = [f"{_short(e.profile)} was stopped: {limits[e.stopped_by or '']}" for e in stopped]
    return "; ".join([f"{counted(len(found), 'trials')} in {took_s:.1f} s", *whys]) + "."
