"""What a Python worker is spared."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle

import kstoolkit
from kstoolkit.pipeline.shuffle import spare_collector

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    vars(gc).pop("_spared_by_kstoolkit", None)
    gc.unfreeze()
    yield
    vars(gc).pop("_spared_by_kstoolkit", None)
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


@pytest.mark.parametrize("by_value", [False, True])
def test_only_the_first_task_of_a_process_takes_things_out_of_sight(*, by_value: bool) -> None:
    """Neither does it again where a cluster's nodes have it sent with each task."""
    sent = spare_collector
    if by_value:
        cloudpickle.register_pickle_by_value(kstoolkit)  # type: ignore[no-untyped-call]
        try:
            sent = cloudpickle.loads(cloudpickle.dumps(spare_collector))  # type: ignore[no-untyped-call]
        finally:
            cloudpickle.unregister_pickle_by_value(kstoolkit)  # type: ignore[no-untyped-call]
        assert sent is not spare_collector
    spare_collector()
    gc.disable()
    try:
        task = weakref.ref(_Ring())
        sent()
        gc.collect()
    finally:
        gc.enable()
    assert task() is None
