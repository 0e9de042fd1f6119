"""A profile to edit: each option, what it does, what differs, and how each engine is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kstoolkit.records import counted
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.options import EFFECTS, OPTIONS, parse_option
from kstoolkit.rocksdb.profiles.presets import ENGINES
from kstoolkit.rocksdb.profiles.profile import Profile, python_source
from kstoolkit.rocksdb.profiles.spark import why_not
from kstoolkit.units import format_bytes, format_span
from kstoolkit.views import parts
from kstoolkit.views.parts import Part, words
from kstoolkit.widgets.panel import Face, Panel

if TYPE_CHECKING:
    from collections.abc import Callable

_WRITTEN: dict[str, Callable[[Profile], str]] = {
    "rocksdict": python_source,
    "Spark": lambda profile: str(profile.to_spark_conf()),
    "Kafka Streams (Java)": lambda profile: profile.to_java("RocksDBOptions"),
}
_PLACES = ("of", "note", "options", "what", "edit", "said", "again", "targets", "text")
_ORDER = [*OPTIONS]
_SIZES = re.compile(r"bytes|_size(_base)?$|write_rate$")
_SPANS = {"ttl", "periodic_compaction_seconds", "stats_dump_period_sec"}


class ProfilePanel(Panel):
    """Edit a profile, see what differs from another, and copy it for an engine.

    ``profile`` is what to begin with, or its name; ``beside`` is the name of the other.

    Examples
    --------
    >>> panel = ProfilePanel("kafka_streams")
    >>> panel.set("write_buffer_size", "32 MiB")
    >>> panel.profile.write_buffer_size
    33554432
    >>> panel
    ProfilePanel(kafka_streams, changed: 1 option that differs from kafka_streams)
    >>> panel.close()
    """

    def __init__(self, profile: Profile | str = "spark", *, beside: str | None = None) -> None:
        self.profile = profile if isinstance(profile, Profile) else profile_named(profile)
        self._first = self._given = self.profile
        name = self.profile.name.removesuffix(", changed")
        is_changed = name != self.profile.name and name in profile_names()
        self._beside = beside or (name if is_changed or name in ENGINES else "kafka_streams")
        self._option, self._target = _ORDER[0], "rocksdict"
        self.face = Face([_PLACES], self._heard)
        super().__init__("RocksDB profile", [self.face], self.face.still)
        self._show()

    def set(self, option: str, text: str) -> None:
        """Give an option the value that is typed; what makes no sense is said, and changes nothing.

        It is read as :func:`~kstoolkit.rocksdb.profiles.options.parse_option` does.
        """
        with self.face.telling("said"):
            self.profile = self._with(option, text)
            self._show()

    def _starts(self) -> list[tuple[str, str]]:
        """Return what can be started from, with what it is called."""
        named = [(each, each) for each in profile_names()]
        is_own = self._given.name not in profile_names()
        return [(self._given.name, "as it was given"), *named] if is_own else named

    def _with(self, option: str, text: str) -> Profile:
        return self.profile.changed(**{option: parse_option(option, text)})

    def _heard(self, told: dict[str, Any]) -> None:
        match told:
            case {"typed": [_, str(option), str(text)]}:
                with self.face.telling("said"):
                    value = _shown(option, getattr(self._with(option, text), option))
                    self.face.say("said", f"{option} would be {value}: Enter sets it.")
                return
            case {"field": ["edit", str(option), str(text)]}:
                self.set(option, text)
                return
            case {"chosen": [_, _, str(option)]} if option in OPTIONS:
                self._option = option
            case {"field": [_, "beside", str(name)]} if name in profile_names():
                self._beside = name
            case {"field": [_, "start", str(name)]} if name in dict(self._starts()):
                own = name == self._given.name
                self.profile = self._first = self._given if own else profile_named(name)
            case {"pressed": ["targets", str(name)]} if name in _WRITTEN:
                self._target = name
            case {"pressed": ["again", _]}:
                self.profile = self._first
        self._show()

    def _show(self) -> None:
        of, option, found = self.profile, self._option, self.profile.diff(self._beside)
        note = f"{counted(len(found), 'options that differ')} from {self._beside}"
        self.title = f"{of.name or 'unnamed'}: {note}"
        undo = {"label": "Undo all changes", "disabled": of == self._first}
        look = {"type": "choice", "options": [(each, each) for each in profile_names()]}
        begun = look | {"options": self._starts()}
        start = parts.field("start", "Start from", self._first.name, **begun)
        beside = parts.field("beside", "Compare with", self._beside, **look)
        self.face.show(
            of=parts.form("Profiles", start, beside),
            note=parts.sentence(f"{self.title}. {of.purpose}".strip(), of.name, tone="note"),
            options=self._options([each.option for each in found]),
            what=parts.sentence(_told(option, of), option, tone="note"),
            edit=parts.form("Change it", _field(option, getattr(of, option))),
            said={},
            again=parts.buttons("Changes", undo),
            targets=parts.tabs("Copy for", _WRITTEN, self._target),
            text=parts.code(self._target, _WRITTEN[self._target](of)),
        )

    def _options(self, differ: list[str]) -> Part:
        """Return each option: what it is here and elsewhere, what it does, and who knows it."""
        kinds = {"set": [*self.profile.given], "differs": differ}
        so = [", ".join(each for each in kinds if name in kinds[each]) for name in _ORDER]
        whys = [_unknown_to(name).items() for name in _ORDER]
        knows = [", ".join(who for who, why in each if not why) or "none" for each in whys]
        own, effects = _values(Profile()), [EFFECTS[each] for each in _ORDER]
        columns = [
            words("option", _ORDER, width="minmax(14em, 3fr)", middle=True),
            words("here", _values(self.profile), width="minmax(5em, 1.2fr)"),
            words(
                self._beside,
                _values(profile_named(self._beside)),
                width="minmax(8.4em, 1.2fr)",
                as_is=True,
            ),
            words("default", own, title="RocksDB's own", wide=True, width="minmax(5em, 1.2fr)"),
            words("changed", so, kind="badges", wide=True, width="minmax(8em, 1.2fr)")
            | {"label": "set, differs"},
            words("effect", effects, wide=True, width="minmax(7em, 3fr)"),
            words("known to", knows, wide=True, width="minmax(6em, 2.4fr)"),
        ]
        chips = [
            {"label": kind, "of": "row", "words": [kind]}
            | {"codes": [int(each not in those) for each in _ORDER]}
            for kind, those in kinds.items()
        ]
        search, chosen = ["option", "here", "effect", "known to"], _ORDER.index(self._option)
        return parts.table(
            "Options", "options", columns, search=search, chips=chips, chosen=chosen, opens=True
        )


def _shown(name: str, value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "unknown" if value is None else "yes" if value else "no"
    if value and isinstance(value, int):
        sized = format_bytes(value) if _SIZES.search(name) else f"{value:,}"
        return format_span(value) if name in _SPANS else sized
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)


def _values(of: Profile) -> list[str]:
    return [_shown(name, value) for name, value in of.options().items()]


def _unknown_to(name: str) -> dict[str, str]:
    """Return each engine, and why it can't be told an option; nothing if it can."""
    option = OPTIONS[name]
    lacking = "" if option.in_rocksdict else "rocksdict has no setter"
    spark = "" if option.spark[0] else why_not(name)
    return {"rocksdict": lacking, "Spark": spark, "Kafka Streams": option.not_in_java or ""}


def _told(name: str, of: Profile) -> str:
    """Return what an option does, why it is as it is, and why some engine can't be told it."""
    whys = [of.why.get(name, ""), of.unknown.get(name, ""), *_unknown_to(name).values()]
    told = "; ".join(dict.fromkeys(each.rstrip(".") for each in whys if each))
    return f"{name}: {EFFECTS[name]}. {told}{'.' if told else ''}".strip()


def _field(name: str, value: Any) -> Part:
    """Return where an option is changed: a choice, or a text that is checked while it is typed."""
    default, several = OPTIONS[name].default, [(each, each) for each in OPTIONS[name].words]
    several = [("true", "yes"), ("false", "no")] if isinstance(default, bool) else several
    if several and not isinstance(default, tuple):
        return parts.field(name, name, str(value).lower(), type="choice", options=several)
    text = _shown(name, value) if value not in {None, ()} else ""
    if value is not None and (name in _SPANS or parse_option(name, text) != value):
        text = str(value)  # of what is not round, the whole number
    return parts.field(name, name, text, live=True, hint="such as 32 MiB")
