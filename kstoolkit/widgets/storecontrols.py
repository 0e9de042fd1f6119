"""The controls of a panel that looks into stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import Button, Checkbox, Dropdown, Layout, Text

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.serdes import SERDE_NAMES
from kstoolkit.markup import plain, shortened
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.widgets.storereading import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ipywidgets import Widget

    from kstoolkit.stores.opening import OpenedStore


_AS_TOLD = "as it seems"
_NONE = ""  # None as a value is no choice at all, and a control without text
_SERDES = (*SERDE_NAMES, "time-windowed(string)", "session-windowed(string)")
_LONGEST_NAME = 40


class StoreControls:
    """Which store, how to read it, what to look for, and which page.

    Examples
    --------
    >>> controls = StoreControls()
    >>> controls.search("anna", prefix=True)
    >>> controls.wanted("/some/store").is_prefix
    True
    """

    def __init__(self) -> None:
        serdes = [(_AS_TOLD, _NONE), *((name, name) for name in _SERDES)]
        self.key_serde = Dropdown(options=serdes, description="Keys as", **_look())
        self.value_serde = Dropdown(options=serdes, description="Values as", **_look())
        self.window_size = _typed("Window size", "such as 1 minute")
        self.version = Dropdown(options=[("latest", _NONE)], description="Version", **_look())
        self.family = Dropdown(options=[(_AS_TOLD, _NONE)], description="Family", **_look())
        self.sought = _typed("Search", "a key, or 0x and hex")
        self.by = Dropdown(
            options=[("of this key", False), ("keys that begin so", True)],
            description="Rows",
            **_look(),
        )
        self.raw = Checkbox(
            description="Raw bytes", value=False, indent=False, layout=Layout(width="auto")
        )
        self.previous = Button(description="Previous", disabled=True, tooltip="The page before")
        self.next = Button(description="Next", disabled=True, tooltip="The next page")
        self.choices_of(None)

    def asking(self) -> list[Widget]:
        """Return the controls that say which rows are wanted, and how to read them."""
        serdes = [self.key_serde, self.value_serde, self.window_size]
        return [*serdes, self.version, self.family, self.sought, self.by]

    def rows(self) -> list[list[Widget]]:
        """Return the rows that the controls stand in."""
        return [
            [self.key_serde, self.value_serde, self.window_size, self.version, self.family],
            [self.sought, self.by, self.raw],
            [self.previous, self.next],
        ]

    def wanted(self, path: str) -> Wanted:
        """Return what the controls say of a store."""
        return Wanted(
            path,
            version=_chosen(self.version),
            window_size=self.window_size.value.strip() or None,
            family=_chosen(self.family),
            key_serde=_chosen(self.key_serde),
            value_serde=_chosen(self.value_serde),
            sought=self.sought.value,
            is_prefix=self.by.value,
        )

    def search(self, text: str, *, prefix: bool) -> None:
        """Have some keys searched for."""
        self.by.value, self.sought.value = prefix, text

    def tell(self, **told: Any) -> None:
        """Give some controls their values.

        Raises
        ------
        ConfigurationError
            If there is no such control, or it has no such choice.
        """
        names = ("key_serde", "value_serde", "window_size", "version", "family")
        for name, value in told.items():
            if name not in names:
                message = f"Nothing is called {name!r} here."
                raise ConfigurationError(message, hint=f"There are {', '.join(names)}.")
            control = getattr(self, name)
            offered = [each for _, each in getattr(control, "options", ())]
            chosen = _NONE if value is None else value
            if offered and chosen not in offered:
                message = f"{name}={value!r:.80} is none of the choices."
                listed = ", ".join(repr(each) for each in offered[:20])
                raise ConfigurationError(message, hint=f"There are {listed}.")
            control.value = chosen

    def anew(self) -> None:
        """Forget what was said of the store before: its version, its family, what was sought."""
        self.version.options, self.family.options = [("latest", _NONE)], [(_AS_TOLD, _NONE)]
        self.sought.value = ""
        self.window_size.value = ""
        self.key_serde.value = self.value_serde.value = _NONE

    def choices_of(self, store: OpenedStore | None) -> None:
        """Offer what an open store has to choose from."""
        versions = store.versions if isinstance(store, SparkStore) else []
        names = [] if store is None else _families(store)
        _offer(self.version, "latest", [(str(each), each) for each in reversed(versions)])
        shown = [(shortened(plain(each), _LONGEST_NAME), each) for each in names]
        _offer(self.family, _AS_TOLD, shown)
        is_streams = store is None or not isinstance(store, SparkStore)
        self.window_size.layout.display = "" if is_streams else "none"


def _look() -> dict[str, Any]:
    # A layout of its own: one that is shared would hide all that share it.
    return {"style": {"description_width": "88px"}, "layout": Layout(width="250px")}


def _chosen(control: Dropdown) -> Any:
    return None if control.value == _NONE else control.value


def _typed(label: str, placeholder: str) -> Text:
    # Each letter would be a search of its own.
    return Text(description=label, placeholder=placeholder, continuous_update=False, **_look())


def _offer(control: Dropdown, first: str, others: Sequence[tuple[str, Any]]) -> None:
    options = ((first, _NONE), *others)
    if tuple(control.options) != options:
        kept = control.value
        control.options = options
        if kept in [value for _, value in others]:
            control.value = kept
    control.layout.display = "" if len(others) > 1 else "none"


def _families(store: OpenedStore) -> list[str]:
    if isinstance(store, SparkStore):
        return list(store.families)
    if isinstance(store, SegmentedStore):
        return list(store.segments.largest()[1].column_families)
    return list(getattr(store, "column_families", ()))
