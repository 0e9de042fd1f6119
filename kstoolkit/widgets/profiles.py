"""A profile to edit: what differs from a default, and how each engine is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import Combobox, Dropdown, Layout, Text, Textarea

from kstoolkit.markup import Html, element, joined, text
from kstoolkit.records import counted
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.options import parse_option
from kstoolkit.rocksdb.profiles.profile import Profile, python_source, value_text
from kstoolkit.widgets.panel import Panel, Shown, button, table_html, wrapping

if TYPE_CHECKING:
    from collections.abc import Callable


_LABELS = {"description_width": "96px"}
_WRITTEN: dict[str, Callable[[Profile], str]] = {
    "rocksdict": python_source,
    "Spark": lambda profile: str(profile.to_spark_conf()),
    "Kafka Streams (Java)": lambda profile: profile.to_java("RocksDBOptions"),
}


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
        self._first = self.profile
        self._shown, self._said = Shown(), Shown()
        self._make_controls(beside or _beside(self.profile))
        chosen = wrapping(self.start, self.beside)
        editing = wrapping(self.option, self.value, self.button, self.back)
        children = [chosen, editing, self._said, self._shown, self.target, self.text]
        super().__init__("RocksDB profile", children, self._static)
        self._show()

    def _make_controls(self, beside: str) -> None:
        names = profile_names()
        begun = self.profile.name if self.profile.name in names else None
        self.start = _dropdown("Start from", names, begun)
        self.beside = _dropdown("Compare with", names, beside)
        self.target = _dropdown("Copy for", tuple(_WRITTEN), "rocksdict")
        look = {"description": "Option", "placeholder": "its name", "style": _LABELS}
        self.option = Combobox(options=tuple(self.profile.options()), ensure_option=True, **look)
        self.value = Text(description="Value", placeholder="such as 32 MiB", style=_LABELS)
        self.button = button("Set", "Give the option this value", self._set)
        self.back = button("Start again", "Undo all changes", lambda: self._take(self._first))
        wide = Layout(width="auto", max_width="640px")
        self.text = Textarea(description="Text", rows=8, layout=wide, style=_LABELS)
        self.start.observe(self._begin, "value")
        self.option.observe(self._fill, "value")
        for control in (self.beside, self.target):
            control.observe(self._show, "value")

    def set(self, option: str, text: str) -> None:
        """Give an option the value that is typed; what makes no sense is said, and changes nothing.

        It is read as :func:`~kstoolkit.rocksdb.profiles.options.parse_option` does.
        """
        with self._said.telling():
            self._take(self.profile.changed(**{option: parse_option(option, text)}))

    def _set(self) -> None:
        self.set(self.option.value, self.value.value)

    def _take(self, profile: Profile) -> None:
        self.profile = profile
        self._said.put(Html())
        self._show()

    def _begin(self, change: dict[str, Any]) -> None:
        if change["new"] is not None:
            self._first = profile_named(change["new"])
            self._take(self._first)

    def _fill(self, change: dict[str, Any]) -> None:
        value = self.profile.options().get(change["new"])
        if value is not None:
            self.value.value = ", ".join(value) if isinstance(value, tuple) else str(value).lower()

    def _show(self, _: object = None) -> None:
        found = self.profile.diff(self.beside.value)
        rows = []
        for each in found:
            here = value_text(each.left, each.unknown.get("left"))
            beside = value_text(each.right, each.unknown.get("right"))
            rows.append((each.option, here, beside))
        note = f"{counted(len(found), 'options that differ')} from {self.beside.value}"
        self.title = f"{self.profile.name or 'unnamed'}: {note}"
        if rows:
            self._shown.put(table_html(("option", "here", self.beside.value), rows, note))
        else:
            self._shown.say(f"{note}.")
        self.text.value = _WRITTEN[self.target.value](self.profile)

    def _static(self) -> Html:
        return joined(self._shown.html(), element("pre", text(self.text.value, keep="\n")))


def _dropdown(label: str, names: tuple[str, ...], value: str | None) -> Dropdown:
    return Dropdown(options=names, value=value, description=label, style=_LABELS)


def _beside(profile: Profile) -> str:
    name = profile.name.removesuffix(", changed")
    return name if name in profile_names() else "spark"
