"""A bucket's state through Spark's map: what a process remembers of it is never of another time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.pipeline import operator
from kstoolkit.pipeline.operator import StateBlocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

KEYS = st.sampled_from(["meta", "counts/0/0", "counts/0/60000", "history/1"])
CHANGES = st.lists(st.tuples(st.sampled_from(["read", "write", "delete"]), KEYS), max_size=6)
BATCH = st.tuples(
    CHANGES,
    st.integers(0, 1),  # which process
    st.sampled_from(["commits", "commits", "fails", "is undone"]),
)


class SparksMap:
    """One version of a state, asked and changed as Spark's map state is; it counts its answers."""

    def __init__(self, held: dict[tuple[str], tuple[bytes]]) -> None:
        self.held, self.answered = dict(held), 0

    def keys(self) -> Iterator[tuple[str]]:
        return iter(list(self.held))

    def getValue(self, key: tuple[str]) -> tuple[bytes]:  # noqa: N802 - Spark's name
        self.answered += 1
        return self.held[key]

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:  # noqa: N802
        self.held[key] = value

    def removeKey(self, key: tuple[str]) -> None:  # noqa: N802
        del self.held[key]


def stored(state: SparksMap) -> dict[str, bytes]:
    return {k: v for (k,), (v,) in state.held.items() if not k.startswith("stamp/")}


@given(st.lists(BATCH, max_size=12))
def test_whatever_fails_moves_or_is_undone_what_is_read_is_what_the_store_holds(
    batches: list[Any],
) -> None:
    memories: list[dict[str, Any]] = [{}, {}]
    before_that, now = SparksMap({}), SparksMap({})
    for number, (changes, process, end) in enumerate(batches):
        operator._KEPT = memories[process]
        attempt = SparksMap(now.held)
        blocks = StateBlocks(attempt)
        assert dict(blocks) == stored(now)
        blocks = StateBlocks(attempt)
        expected = stored(now)
        for place, (what, key) in enumerate(changes):
            if what == "read":
                assert blocks.get(key) == expected.get(key)
            elif what == "write":
                blocks[key] = expected[key] = f"{number} {place}".encode()
            elif key in expected:
                del blocks[key], expected[key]
        assert dict(blocks) == expected == stored(attempt)
        if end == "commits":
            before_that, now = now, attempt
        elif end == "is undone":  # Java ended, and Spark goes on from what it has on disk
            now = before_that


def test_the_process_that_wrote_a_state_asks_for_nothing_of_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operator, "_KEPT", {})
    state = SparksMap({})
    for number in range(3):
        blocks = StateBlocks(state)
        assert blocks.get("counts") == (None if number == 0 else b"%d" % (number - 1))
        blocks["counts"] = b"%d" % number
        assert state.answered == 0
    monkeypatch.setattr(operator, "_KEPT", {})  # another process
    assert StateBlocks(state)["counts"] == b"2"
    assert state.answered == 1


def test_what_was_not_used_in_the_last_batch_is_no_longer_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operator, "_KEPT", {})
    state = SparksMap({})
    StateBlocks(state)["old"] = b"1"
    StateBlocks(state)["new"] = b"2"
    (kept,) = operator._KEPT.values()
    assert kept.blocks == {"new": b"2"}


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "_KEPT", {})
    monkeypatch.setattr(operator, "_MOST_KEPT_BYTES", 24)
    states = [SparksMap({}) for _ in range(4)]
    for state in states:
        blocks = StateBlocks(state)
        for key in "abcd":
            blocks[key] = b"four"
        assert sum(len(b) for each in operator._KEPT.values() for b in each.blocks.values()) <= 24
    for state in states:
        assert dict(StateBlocks(state)) == dict.fromkeys("abcd", b"four")
    assert [state.answered for state in states] == [4, 4, 1, 1]  # the oldest are forgotten first
