"""A plan of capacity at any rate: what decides there, and what is needed, term by term."""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, Any

from kstoolkit.records import counted
from kstoolkit.units import format_count
from kstoolkit.views import parts
from kstoolkit.widgets.panel import Face, Newest, Panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.operations.capacity import CapacityPlan
    from kstoolkit.views.parts import Part

_PLACES = ("rate", "told", "said", "needed", "courses", "savings", "terms")
_POWERS = [step / 6 for step in range(-12, 13)]
"""Rates that are planned, in powers of ten of the plan's."""
_SAVED = ("step", "operations", "stores", "how")
_LEAST = 0.001
_TERMS = ("section", "term", "value", "how")
_FIGURES = ("operations", "stores", "value")
_NO_COURSE: dict[str, Any] = {"note": "", "times": [], "values": [], "texts": []}
_TILES = ("state", "partitions that are enough")


class CapacityPanel(Panel):
    """Look at a plan of capacity at other rates: what decides there, and what is needed.

    >>> from kstoolkit.operations.capacity import plan_capacity
    >>> with CapacityPanel(plan_capacity(rate=50_000_000)) as panel:
    ...     panel.set(100_000_000)
    ...     panel
    CapacityPanel(100,000,000 events a second: 179 machines, by cores)
    """

    def __init__(self, plan: CapacityPlan) -> None:
        self.plan, first = plan, float(plan.given["rate"])
        self._rates = [float(f"{first * 10**each:.2g}") if each else first for each in _POWERS]
        self._plans = {first: plan}
        self.face = Face([_PLACES], self._heard)
        self._planning = Newest(lambda why: self.face.say("said", why))
        super().__init__("Capacity", [self.face], lambda: self.face.still(self.plan))
        self.on_close(self._planning.stop)
        self._show()
        self._planning.ask(self._draw)

    def set(self, rate: float) -> None:
        """Plan for so many events a second; what makes no sense is said, and changes nothing."""
        with self.face.telling("said"):
            self.plan = self._planned(rate)
            self._show()

    def wait(self) -> None:
        """Wait until the rates around the plan's are planned, and drawn."""
        self._planning.wait()

    def _heard(self, told: dict[str, Any]) -> None:
        match told:
            case {"field": [_, _, int() | float() as rate]} | {"at": [_, int() | float() as rate]}:
                self.set(rate)

    def _planned(self, rate: float) -> CapacityPlan:
        if rate not in self._plans:
            [self._plans[rate]] = self.plan.sweep("rate", [rate]).plans
        return self._plans[rate]

    def _draw(self) -> None:
        """Plan all rates, the nearest first, and draw them; in a thread: a run is read for each."""
        for rate in sorted(self._rates, key=lambda each: abs(log(each / self.plan.given["rate"]))):
            if self.is_closed:
                return
            self._planned(rate)
        plans = [self._plans[rate] for rate in self._rates]
        wants = {name: [each.needed[name] for each in plans] for name in self.plan.needed}
        drawn = [[(each, counted(each, "machines")) for each in want] for want in wants.values()]
        courses = [(f"for {name}", self._rates) for name in wants]
        look = {"unit": " events a second", "log": True, "at": float(self.plan.given["rate"])}
        made = parts.lines("What decides", courses, [("Machines", drawn)], **look)
        self.face.put("courses", made)

    def _show(self) -> None:
        plan, rate = self.plan, float(self.plan.given["rate"])
        terms = {each.term: each.text for each in plan.terms}
        wanted = {f"machines for {name}": format_count(n) for name, n in plan.needed.items()}
        wanted |= {"stores busy, if each event updated them": terms["stores needed"]}
        wanted |= {"stores busy, added up first": format_count(ceil(plan.savings[-1].stores))}
        wanted |= {name: terms[name] for name in _TILES}
        tiles = [{"label": name, "text": text} | _NO_COURSE for name, text in wanted.items()]
        tiles[[*plan.needed].index(plan.limit)] |= {"note": "what decides"}
        rates = [(each, format_count(each)) for each in sorted({*self._rates, rate})]
        steps = [
            (
                each.step,
                f"{each.operations:,.3g}" if each.operations >= _LEAST else f"under {_LEAST}",
                format_count(ceil(each.stores)),
                each.formula,
            )
            for each in plan.savings
        ]
        rows = [(each.section, each.term, each.text, each.how) for each in plan.terms]
        slider = parts.field("rate", "Events a second", rate, type="slider", options=rates)
        self.face.show(
            rate=parts.form("Rate", slider),
            told=parts.sentence(plan.sentence),
            said={},
            needed={"kind": "tiles", "tiles": tiles},
            savings=_table("What saves store operations", "steps", _SAVED, steps),
            terms=_table("Terms", "terms", _TERMS, rows, search=[*_TERMS]),
        )
        self.face.mark("courses", rate)

    def __repr__(self) -> str:
        told = f"{format_count(self.plan.given['rate'])} events a second"
        machines = counted(self.plan.machines, "machines")
        return f"CapacityPanel({told}: {machines}, by {self.plan.limit})"


def _table(
    label: str, noun: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]], **how: Any
) -> Part:
    told = zip(heads, *rows, strict=True)
    kinds = dict.fromkeys(_FIGURES, "figure")
    columns = [
        parts.words(head, [*of], wide=head == "section", kind=kinds.get(head, "text"))
        for head, *of in told
    ]
    return parts.table(label, noun, columns, opens=True, **how)
