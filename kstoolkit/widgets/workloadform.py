"""The fields of a workload as controls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ipywidgets import BoundedFloatText, BoundedIntText, Dropdown, HBox, Layout

from kstoolkit.rocksdb.lab.workloads import KINDS, REPLAYED, Workload

if TYPE_CHECKING:
    from ipywidgets import Widget


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


def field_look(width_px: int = 172) -> dict[str, Any]:
    """Return how a field looks: its label and itself as wide as those above and below."""
    return {"style": {"description_width": "86px"}, "layout": Layout(width=f"{width_px}px")}


class WorkloadForm(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """A control for each field of a workload; one that replays rows keeps them.

    Parameters
    ----------
    workload
        What to begin with.

    Examples
    --------
    >>> form = WorkloadForm(Workload("skewed", writes=5_000))
    >>> form.controls["keys"].value = 100
    >>> form.workload()
    Workload(skewed, 5,000 writes, 100 keys, values of 100 bytes, 0.1 reads a write, seed 7)
    >>> form.close()
    """

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
                **field_look(_KIND_PX),
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
                **field_look(),
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
                **field_look(),
            )
        super().__init__(list(self.controls.values()))
        self.add_class("kst-wraps")

    def workload(self) -> Workload:
        """Return the workload that the controls say.

        Raises
        ------
        ConfigurationError
            If a value makes no sense.
        """
        told = {name: control.value for name, control in self.controls.items()}
        return replace(
            self._first, **told | {"writes_per_second": told["writes_per_second"] or None}
        )

    def take(self, workload: Workload) -> None:
        """Show the fields of a workload, but for rows that are replayed."""
        for name, control in self.controls.items():
            control.value = getattr(workload, name) or 0
