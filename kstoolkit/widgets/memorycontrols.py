"""The controls of a memory plan: how many stores, with which options, holding how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import BoundedIntText, Checkbox, Dropdown, HBox, Layout, Text, VBox

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import plain, shortened
from kstoolkit.rocksdb.memory.planning import plan_memory, profile_given
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.units import format_bytes
from kstoolkit.widgets.slider import Slider

if TYPE_CHECKING:
    from kstoolkit.rocksdb.memory.planning import MemoryPlan
    from kstoolkit.rocksdb.profiles.profile import Profile


_MOST = 1_000_000
_LONGEST_NAME = 40
_UNKNOWN = -1  # a slider can't say None
_COUNTS = {
    "partitions": ("Partitions", "On one host"),
    "segments": ("Segments", "Of each partition, open at once"),
    "stores": ("Stores", "Of each partition"),
    "column_families": ("Families", "Column families that are written, in each store"),
}
_SIZES: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "memtable_bytes": (
        "Memtable size",
        "write_buffer_size",
        tuple(1 << power for power in range(20, 31)),
    ),
    "memtables": ("Memtables", "max_write_buffer_number", tuple(range(1, 17))),
    "block_cache_bytes": (
        "Block cache",
        "block_cache_bytes",
        (0, *(1 << power for power in range(20, 36))),
    ),
}
"""Label, the option of a profile, and what to choose from beside the profile's own."""
_DATA = {
    "keys": ("Keys", "In one store"),
    "key_bytes": ("Key bytes", "On average"),
    "value_bytes": ("Value bytes", "On average"),
    "iterators": ("Iterators", "Open at once, in one store"),
}


class MemoryControls(VBox):  # type: ignore[misc] # ipywidgets carries no types
    """What a plan is made of, each part a control.

    Parameters
    ----------
    profile
        The profile to begin with.

    Examples
    --------
    >>> controls = MemoryControls(profile_named("kafka_streams"))
    >>> controls.tell(partitions=40, segments=3, memtable_bytes=32 << 20)
    >>> controls.plan().instances
    120
    >>> controls.close()
    """

    def __init__(self, profile: Profile) -> None:
        self._own: dict[str, Profile] = {}
        self.controls: dict[str, Any] = {
            name: BoundedIntText(
                value=1, min=1, max=_MOST, description=label, tooltip=tip, **_look("232px")
            )
            for name, (label, tip) in _COUNTS.items()
        }
        self.controls["profile"] = Dropdown(
            options=profile_names(), description="Profile", **_look("256px")
        )
        self._sliders = {
            name: Slider([("unknown", _UNKNOWN)], label, tooltip=option, look=_look("232px"))
            for name, (label, option, _) in _SIZES.items()
        }
        self.controls |= {name: each.choice for name, each in self._sliders.items()}
        self.controls["blocks_in_cache"] = Checkbox(
            description="Index and filter blocks in the cache",
            indent=False,
            layout=Layout(width="auto"),
        )
        for name, (label, tip) in _DATA.items():
            self.controls[name] = Text(
                description=label,
                tooltip=tip,
                placeholder="unknown",
                continuous_update=False,
                **_look("232px"),
            )
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
        """Return the plan.

        Raises
        ------
        ConfigurationError
            If something is no number, or options contradict each other.
        """
        counts = {name: self.controls[name].value for name in _COUNTS}
        data: dict[str, Any] = {
            name: _whole(label, self.controls[name].value) for name, (label, _) in _DATA.items()
        }
        return plan_memory(self.profile, **counts, **data)

    def tell(self, **told: Any) -> None:
        """Give some controls their values; a size that is not on a slider is put there.

        Raises
        ------
        ConfigurationError
            If there is no such control, or it can't have such a value.
        """
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
        rows = [HBox([parts[name] for name in names]) for names in named]
        for row in rows:
            row.add_class("kst-wraps")
        return rows

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


def _look(width: str) -> dict[str, Any]:
    return {"style": {"description_width": "112px"}, "layout": Layout(width=width)}


def _whole(label: str, text: str) -> int | None:
    digits = text.replace(",", "").replace("_", "").strip()
    if not digits:
        return None
    if not digits.isdecimal():
        message = f"{label}: {text!r:.80} is no whole number."
        raise ConfigurationError(message, hint="Write it as 1,000,000; nothing is unknown.")
    return int(digits)
