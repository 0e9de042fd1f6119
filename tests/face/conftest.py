"""The place from which the commands of these tests are given."""

from __future__ import annotations

import pytest

from tests.face.asking import PLAIN, ROOT


@pytest.fixture(autouse=True)
def _at_a_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands where the repository begins, as its README does."""
    monkeypatch.chdir(ROOT)
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
