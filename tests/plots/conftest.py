"""Figures that plots made for themselves are closed after each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    yield
    plt.close("all")
