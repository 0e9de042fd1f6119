from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.options import OPTIONS, parse_option


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096),
        ("32 MiB", 32 << 20),
        ("32mb", 32 << 20),
        ("1.5g", 3 << 29),
        ("1,000", 1000),
        ("64 K", 65536),
    ],
)
def test_sizes_are_typed_as_people_write_them(text: str, value: int) -> None:
    assert parse_option("write_buffer_size", text) == value


@pytest.mark.parametrize(("text", "value"), [("true", True), (" No ", False), ("ON", True)])
def test_truths_have_several_words(text: str, value: bool) -> None:  # noqa: FBT001 - the case
    assert parse_option("cache_index_and_filter_blocks", text) is value


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_value_of_each_named_profile_reads_back(name: str) -> None:
    values = [profile_named(each).options()[name] for each in profile_names()]
    for value in (each for each in values if each is not None):
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        assert parse_option(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("bloom", "1", "There is no option 'bloom'"),
        ("write_buffer_size", "much", "write_buffer_size is a number, not 'much'"),
        ("write_buffer_size", "", "write_buffer_size is a number, not ''"),
        ("statistics", "perhaps", "statistics is either true or false, not 'perhaps'"),
    ],
)
def test_what_makes_no_sense_is_said(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_option(name, text)


@example("block_cache_bytes", ",")
@given(st.sampled_from(sorted(OPTIONS)), st.text(max_size=40))
def test_any_text_is_a_value_or_our_own_error(name: str, text: str) -> None:
    found: Any
    try:
        found = parse_option(name, text)
    except ConfigurationError as error:
        found = error
    assert found is not None
