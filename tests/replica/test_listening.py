from __future__ import annotations

import pickle

from kstoolkit.errors import InputError
from kstoolkit.replica.listening import RestoreHistory


def told() -> RestoreHistory:
    now = iter([100.0, 100.5, 101.0, 101.5, 102.0, 104.0])
    history = RestoreHistory(clock=lambda: next(now))
    history.on_start("1 minute", total=500)
    history.on_batch("1 minute", records=200)
    history.on_batch("1 minute", records=300)
    history.on_end("1 minute", records=500)
    history.on_start("1 hour", total=70)
    history.on_failure("1 hour", error=InputError("<b>gone</b>"))
    return history


def test_it_keeps_every_call_with_its_time_since_the_first() -> None:
    frame = told().to_pandas()
    assert frame["event"].tolist() == ["start", "batch", "batch", "end", "start", "failure"]
    assert frame["seconds"].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 4.0]
    assert frame["records"].iloc[:5].tolist() == [500, 200, 300, 500, 70]
    assert frame["what"].tolist() == ["1 minute"] * 4 + ["1 hour"] * 2


def test_it_sums_up_what_was_read_and_what_was_to_be_read() -> None:
    history = told()
    assert (history.records, history.total, history.seconds) == (500, 570, 4.0)
    assert [each.error for each in history.failures] == ["<b>gone</b>"]


def test_text_and_html_state_the_same_facts() -> None:
    said = "500 of 570 records in 4.0 s; 1 of 2 levels or segments done; 1 failure"
    assert repr(told()) == f"RestoreHistory({said})"
    html = told()._repr_html_()
    assert said in html
    assert "<b>gone</b>" not in html


def test_it_can_be_handed_to_another_process_and_told_more_there() -> None:
    history = RestoreHistory()
    history.on_start("1 minute", total=500)
    again = pickle.loads(pickle.dumps(history))  # noqa: S301 - made a moment ago
    again.on_batch("1 minute", records=200)
    assert (again.total, again.records, history.records) == (500, 200, 0)


def test_before_anything_is_told_there_is_nothing() -> None:
    history = RestoreHistory()
    assert repr(history) == "RestoreHistory(nothing told yet)"
    assert history.to_pandas().empty
    assert len(history.steps) == 0
