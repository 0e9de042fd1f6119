from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.streams.kinds import Kind, kinds_named, live_family


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in {"key-value", "window"}])
def test_a_kind_is_found_by_its_name(kind: Kind) -> None:
    assert kind in kinds_named(kind)
    assert kinds_named(kind) == kinds_named(kind.upper().replace("-", "_"))


@pytest.mark.parametrize("group", ["key-value", "window", "session"])
def test_a_group_is_all_the_kinds_that_are_called_so(group: str) -> None:
    assert set(kinds_named(group)) == {kind for kind in Kind if kind.endswith(group)}


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="no kind of store 'sesion'") as caught:
        kinds_named("sesion")
    assert "Did you mean 'session'?" in str(caught.value.hint)


@given(st.text() | st.sampled_from([*Kind, "window", "sessions"]))
def test_any_name_is_of_a_kind_or_an_error_of_the_user(name: str) -> None:
    with suppress(ConfigurationError):
        assert kinds_named(name)


def test_the_newest_column_family_is_the_one_written_to() -> None:
    older = ["default", "keyValueWithTimestamp"]
    assert live_family(older) == "keyValueWithTimestamp"
    assert live_family([*older, "keyValueWithTimestampAndHeaders", "offsets"]) == (
        "keyValueWithTimestampAndHeaders"
    )
    assert live_family(["default", "offsets"]) == "default"
