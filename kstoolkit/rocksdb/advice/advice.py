"""A piece of advice: what was measured, what to set otherwise, what that brings and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Figure, Record, Records, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Advice(Record):
    """One piece of advice; there is none without evidence.

    Parameters
    ----------
    rule
        Which rule gives it.
    symptom
        What is the matter, in a sentence.
    evidence
        The figures that show it, each with whose it is.
    option, direction
        What to set, in RocksDB's own terms, and which way.
    effect, cost
        What is to be expected of it, and what it takes.
    link
        Where that stands.
    column_family
        Whose options; None if they are the whole store's or process's.
    """

    rule: str
    symptom: str
    evidence: tuple[Figure, ...]
    option: str
    direction: str
    effect: str
    cost: str
    link: str
    column_family: str | None = None

    def figures(self) -> list[Figure]:
        """Return the evidence."""
        return list(self.evidence)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, as ``--json`` prints them."""
        evidence = [
            {"figure": each.name, "value": each.value, "source": str(each.source)}
            for each in self.evidence
        ]
        return Record.to_dict(self) | {"evidence": evidence}

    def __str__(self) -> str:
        whose = "" if self.column_family is None else f" (column family {self.column_family!r})"
        return "\n".join(
            (
                f"{self.rule}{whose}: {self.symptom}",
                *(f"  measured: {each}" for each in self.evidence),
                f"  set: {self.option}: {self.direction}",
                f"  expect: {self.effect}",
                f"  cost: {self.cost}",
                f"  see: {self.link}",
            )
        )

    def __repr__(self) -> str:
        return f"Advice({self.rule}: {self.option}, {self.direction})"


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Why a rule can't tell whether its symptom is there."""

    why: str


class AdviceList(Records[Advice]):
    """The advice there is, and which rules could not be judged.

    Parameters
    ----------
    rows
        The advice.
    unjudged
        For each rule that lacks a fact: why. Its silence says nothing.

    Examples
    --------
    >>> AdviceList([], {"write amplification": "there is no log"})
    AdviceList(no advice; 1 rule unjudged)
    """

    def __init__(self, rows: Sequence[Advice], unjudged: Mapping[str, str]) -> None:
        super().__init__(rows, "pieces of advice")
        self.unjudged = dict(unjudged)

    def __str__(self) -> str:
        silent = [f"{rule}: not judged ({why})" for rule, why in self.unjudged.items()]
        return "\n".join([*map(str, self.rows), *silent])

    def __repr__(self) -> str:
        told = counted(len(self), self.kind) if self.rows else "no advice"
        return f"AdviceList({told}; {counted(len(self.unjudged), 'rules')} unjudged)"
