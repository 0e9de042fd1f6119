from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from kstoolkit.rocksdb.records import Figure, Record, Records, Source, of_source


@dataclass(frozen=True, slots=True)
class Part(Record):
    name: str
    size_bytes: int | None = of_source(Source.STORE)
    stalls: int | None = of_source(Source.LOG, None)
    at: datetime | None = None
    unknown: dict[str, str] = field(default_factory=dict)


PART = Part("<b>", 2048, None, datetime(2026, 3, 1, tzinfo=UTC), {"stalls": "level ERROR"})


def test_figures_tell_value_source_and_why_they_are_unknown() -> None:
    assert [str(each) for each in PART.figures()] == [
        "size_bytes: 2.0 KiB (store on disk)",
        "stalls: unknown (level ERROR)",
    ]
    rows = PART.to_pandas().to_dict("records")
    assert rows[0] == {
        "figure": "size_bytes",
        "value": 2048,
        "source": "store on disk",
        "why_unknown": None,
    }
    assert rows[1]["why_unknown"] == "level ERROR"


def test_plain_values_are_what_json_takes() -> None:
    assert PART.to_dict() == {
        "name": "<b>",
        "size_bytes": 2048,
        "stalls": None,
        "at": "2026-03-01T00:00:00+00:00",
        "unknown": {"stalls": "level ERROR"},
    }


def test_html_says_the_same_and_escapes() -> None:
    page = PART._repr_html_()
    assert "2.0 KiB" in page
    assert "unknown (level ERROR)" in page
    assert "store on disk" in page
    assert "<b>" not in page


def test_records_are_a_sequence_and_a_table() -> None:
    parts = Records([PART, Part("b", 1)], "parts")
    assert (len(parts), parts[1].name, [each.name for each in parts[:1]]) == (2, "b", ["<b>"])
    assert repr(parts) == "Records(2 parts)"
    assert parts.to_pandas()["size_bytes"].tolist() == [2048, 1]
    assert "store on disk" in parts._repr_html_()
    assert "<b>" not in parts._repr_html_()


def test_one_record_is_named_in_the_singular() -> None:
    assert repr(Records([PART], "SST files")) == "Records(1 SST file)"
    assert repr(Records([], "prefixes")) == "Records(0 prefixes)"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("start_ms", 1_700_005_380_000, "2023-11-14 23:43:00 UTC"),
        ("updated_at_ms", 1_500, "1970-01-01 00:00:01.500 UTC"),
        ("end_ms", -1_000, "1969-12-31 23:59:59 UTC"),
        ("stream_time_ms", 2**63 - 1, "9,223,372,036,854,775,807"),
        ("retention_ms", 86_400_000, "86,400,000"),
        ("duration_ms", 1_700, "1,700"),
    ],
)
def test_moments_are_shown_as_times_and_lengths_of_time_are_not(
    name: str, value: int, text: str
) -> None:
    assert Figure(name, value, Source.STORE).text == text
