from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.widgets.profiles import ProfilePanel

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def panel() -> Iterator[ProfilePanel]:
    with ProfilePanel("kafka_streams") as made:
        yield made


def test_setting_an_option_shows_what_differs_and_how_each_engine_is_told(
    panel: ProfilePanel,
) -> None:
    panel.option.value = "write_buffer_size"
    assert panel.value.value == "16777216"
    panel.value.value = "32 MiB"
    panel.button.click()
    assert panel.profile.write_buffer_size == 32 << 20
    assert "write_buffer_size" in panel.static_html()
    assert "write_buffer_size=33554432" in panel.text.value
    panel.target.value = "Spark"
    assert "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB=32" in panel.text.value
    panel.target.value = "Kafka Streams (Java)"
    assert "setWriteBufferSize(33554432" in panel.text.value


def test_what_makes_no_sense_is_said_and_changes_nothing(panel: ProfilePanel) -> None:
    before = panel.profile
    panel.set("level0_stop_writes_trigger", "1")
    assert panel.profile == before
    assert "level0_stop_writes_trigger is 1" in panel._said.value


def test_starting_again_undoes_all_changes(panel: ProfilePanel) -> None:
    before = panel.profile
    panel.set("compression", "lz4")
    panel.set("block_size", "8 KiB")
    panel.back.click()
    assert panel.profile == before
    panel.start.value = "spark"
    assert panel.profile.compression == "lz4"


def test_it_is_compared_with_any_named_profile(panel: ProfilePanel) -> None:
    panel.beside.value = "low_disk"
    assert "from low_disk" in repr(panel)
    assert "bottommost_compression" in panel.static_html()


def test_a_profile_of_ones_own_may_be_edited() -> None:
    with ProfilePanel(Profile(name="<mine>", block_size=8192)) as panel:
        assert panel.start.value is None
        assert "&lt;mine&gt;" in panel.static_html()
        assert "<mine>" not in panel.static_html()
