from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.options import EFFECTS, OPTIONS
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.widgets.profiles import ProfilePanel

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def panel() -> Iterator[ProfilePanel]:
    with ProfilePanel("kafka_streams") as made:
        yield made


def hear(panel: ProfilePanel, **told: Any) -> None:
    """Tell a panel what its view sends."""
    panel.face._handle_custom_msg(told, [])


def cells(panel: ProfilePanel, option: str) -> dict[str, str]:
    row = [*OPTIONS].index(option)
    columns = panel.face.part("options")["columns"]
    return {each["name"]: each["words"][each["codes"][row]] for each in columns}


def test_setting_an_option_shows_what_differs_and_how_each_engine_is_told(
    panel: ProfilePanel,
) -> None:
    hear(panel, chosen=["options", 0, "write_buffer_size"])
    field = panel.face.part("edit")["fields"][0]
    assert (field["name"], field["value"]) == ("write_buffer_size", "16.0 MiB")
    hear(panel, field=["edit", "write_buffer_size", "32 MiB"])
    assert panel.profile.write_buffer_size == 32 << 20
    assert cells(panel, "write_buffer_size") == {
        "option": "write_buffer_size",
        "here": "32.0 MiB",
        "kafka_streams": "16.0 MiB",
        "default": "64.0 MiB",
        "changed": "set, differs",
        "effect": EFFECTS["write_buffer_size"],
        "known to": "rocksdict, Spark, Kafka Streams",
    }
    assert "write_buffer_size=33554432" in panel.face.part("text")["text"]
    hear(panel, pressed=["targets", "Spark"])
    told = panel.face.part("text")["text"]
    assert "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB=32" in told
    hear(panel, pressed=["targets", "Kafka Streams (Java)"])
    assert "setWriteBufferSize(33554432" in panel.face.part("text")["text"]


def test_what_is_typed_is_checked_and_changes_nothing_before_enter(panel: ProfilePanel) -> None:
    before = panel.profile
    for typed, said in {
        "3": "the least that RocksDB takes is 65536",
        "many": "write_buffer_size is a number, not 'many'",
        "32 MiB": "write_buffer_size would be 32.0 MiB: Enter sets it.",
    }.items():
        hear(panel, typed=["edit", "write_buffer_size", typed])
        assert said in panel.face.part("said")["text"]
        assert panel.profile == before


def test_what_makes_no_sense_is_said_and_changes_nothing(panel: ProfilePanel) -> None:
    before = panel.profile
    panel.set("level0_stop_writes_trigger", "1")
    assert panel.profile == before
    assert "level0_stop_writes_trigger is 1" in panel.face.part("said")["text"]
    panel.set("nonsense", "1")
    assert "There is no option 'nonsense'" in panel.face.part("said")["text"]


@pytest.mark.parametrize("name", ["kafka_streams", "spark", "low_disk"])
def test_what_a_field_shows_is_read_as_the_value_it_has(name: str) -> None:
    with ProfilePanel(name) as panel:
        for option, value in profile_named(name).options().items():
            hear(panel, chosen=["options", 0, option])
            [field] = panel.face.part("edit")["fields"]
            panel.set(option, str(field["value"]))
            assert getattr(panel.profile, option) == value


def test_undoing_takes_all_changes_back(panel: ProfilePanel) -> None:
    before = panel.profile
    panel.set("compression", "lz4")
    panel.set("block_size", "8 KiB")
    hear(panel, pressed=["again", 0])
    assert panel.profile == before
    hear(panel, field=["of", "start", "spark"])
    assert panel.profile == profile_named("spark")


def test_one_of_no_name_we_know_is_where_it_starts_and_can_be_gone_back_to() -> None:
    with ProfilePanel(Profile(name="mine", block_size=8192)) as panel:
        start = panel.face.part("of")["fields"][0]
        assert (start["value"], start["options"][0]) == ("mine", ("mine", "as it was given"))
        hear(panel, field=["of", "start", "spark"])
        assert panel.profile == profile_named("spark")
        hear(panel, field=["of", "start", "mine"])
        assert panel.profile == Profile(name="mine", block_size=8192)


def test_it_is_compared_with_any_named_profile(panel: ProfilePanel) -> None:
    hear(panel, field=["of", "beside", "low_disk"])
    assert "from low_disk" in repr(panel)
    assert cells(panel, "compression")["low_disk"] == profile_named("low_disk").compression
    assert "differs" in cells(panel, "bottommost_compression")["changed"]
    with pytest.raises(ConfigurationError, match="nonsense"):
        ProfilePanel(beside="nonsense")


def test_why_an_engine_can_not_be_told_is_said(panel: ProfilePanel) -> None:
    hear(panel, chosen=["options", 0, "ttl"])
    assert "rocksdict has no setter; Spark has no key" in str(panel.face.part("what")["told"])
    assert cells(panel, "ttl")["known to"] == "Kafka Streams"


def test_every_option_has_an_effect() -> None:
    assert EFFECTS.keys() == OPTIONS.keys()


def test_a_profile_of_ones_own_may_be_edited() -> None:
    unknown = {"compression": "<nobody> knows"}
    with ProfilePanel(Profile(name="<mine>", compression=None, unknown=unknown)) as panel:
        assert "&lt;mine&gt;" in panel.static_html()
        assert "<mine>" not in panel.static_html()
        assert cells(panel, "compression")["here"] == "unknown"
        hear(panel, chosen=["options", 0, "compression"])
        assert "<nobody> knows" in str(panel.face.part("what")["told"])
        panel.set("compression", "lz4")
        assert panel.profile.compression == "lz4"
