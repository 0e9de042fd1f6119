from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.operations.capacity import plan_capacity
from kstoolkit.widgets.capacity import CapacityPanel

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def panel() -> Iterator[CapacityPanel]:
    with CapacityPanel(plan_capacity(rate=50_000_000, engine="kafka_streams")) as made:
        made.wait()
        yield made


def tiles(panel: CapacityPanel) -> dict[str, str]:
    return {each["label"]: each["text"] for each in panel.face.part("needed")["tiles"]}


def test_each_step_of_the_slider_is_the_plan_of_that_rate(panel: CapacityPanel) -> None:
    [slider] = panel.face.part("rate")["fields"]
    rates = [rate for rate, _ in slider["options"]]
    assert rates[0] == pytest.approx(500_000)
    assert rates[-1] == pytest.approx(5e9)
    for rate in (rates[0], rates[7], rates[-1]):
        panel.face._handle_custom_msg({"field": ["rate", "rate", rate]}, [])
        plan = plan_capacity(rate=rate, engine="kafka_streams")
        assert panel.plan.to_dict() == plan.to_dict()
        assert "".join(text for text, _ in panel.face.part("told")["told"]) == plan.sentence
        for name, number in plan.needed.items():
            assert tiles(panel)[f"machines for {name}"] == f"{number:,}"
        notes = [each["label"] for each in panel.face.part("needed")["tiles"] if each["note"]]
        assert notes == [f"machines for {plan.limit}"]
        assert panel.face.chosen == {"courses": rate}
        assert panel.face.part("terms")["rows"] == len(plan.terms)


def test_the_chart_has_what_each_resource_wants_at_each_rate(panel: CapacityPanel) -> None:
    part = panel.face.part("courses")
    [chart] = part["charts"]
    for course, values in zip(part["courses"], chart["values"], strict=True):
        name = course["label"].removeprefix("for ")
        for rate, value in list(zip(course["xs"], values, strict=True))[::8]:
            assert plan_capacity(rate=rate, engine="kafka_streams").needed[name] == value


def test_a_rate_between_the_steps_is_planned_and_what_makes_no_sense_is_said(
    panel: CapacityPanel,
) -> None:
    panel.set(12_345_678)
    assert panel.plan["events"] == 12_345_678
    assert 12_345_678 in [rate for rate, _ in panel.face.part("rate")["fields"][0]["options"]]
    panel.set(-1)
    assert "rate is -1" in panel.face.part("said")["text"]
    assert panel.plan["events"] == 12_345_678
    assert repr(panel).startswith("CapacityPanel(12,345,678 events a second: ")


def test_the_static_page_has_the_sentence_the_tables_and_the_plot(panel: CapacityPanel) -> None:
    page = panel.static_html()
    assert panel.plan.sentence.split(".")[0] in page
    assert page.count("<img") == 1
    assert "events a store takes" in page
