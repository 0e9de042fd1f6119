"""What a Python worker is spared."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from kstoolkit.pipeline.shuffle import spare_collector

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_loaded_is_passed_over_and_what_comes_later_is_collected() -> None:
    gc.disable()
    try:
        early = weakref.ref(_Ring())
        spare_collector()
        late = weakref.ref(_Ring())
        gc.collect()
    finally:
        gc.enable()
    assert early() is not None
    assert late() is None


def test_only_the_first_task_of_a_process_takes_things_out_of_sight() -> None:
    spare_collector()
    gc.disable()
    try:
        task = weakref.ref(_Ring())
        spare_collector()
        gc.collect()
    finally:
        gc.enable()
    assert task() is None
