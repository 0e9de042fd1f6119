"""What a table of records leaves out, folds away, and says first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.stores.growth.records import KeyUse, WindowUse
from kstoolkit.views.records import printed, rows_of
from kstoolkit.views.still import still


@dataclass(frozen=True, slots=True)
class Part(Record):
    path: str
    size_bytes: int | None = of_source(Source.STORE)
    rss_bytes: int | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)


WHY = {"rss_bytes": "its <process> is gone"}
PARTS = [Part(f"/state/app/clicks.{at}", 1 << at, None, WHY) for at in (10, 20, 30)]


def table(rows: list[Any], kind: str = "parts", of: int | None = None) -> dict[str, Any]:
    return rows_of(Records(rows, kind), of)


def heads(part: dict[str, Any]) -> list[str]:
    return [each["label"] for each in part["columns"]]


def test_a_row_begins_with_where_it_is_from_as_far_as_that_tells_them_apart() -> None:
    made = table(PARTS)
    assert heads(made) == ["Path", "Size"]
    assert made["columns"][0]["words"] == ["clicks.10", "clicks.20", "clicks.30"]
    assert heads(table(PARTS[:1])) == ["Size", "Path"], "one alone is told apart from nothing"
    assert table(PARTS[:1])["columns"][1]["words"] == ["/state/app/clicks.10"]


def test_paths_that_share_nothing_are_whole() -> None:
    mixed = [Part("a", 1, 1), Part("/b", 1, 1)]
    assert table(mixed)["columns"][0]["words"] == ["a", "/b"]


def test_what_is_unknown_of_all_is_folded_with_why_and_of_some_stands_there() -> None:
    made = table(PARTS)
    assert made["unknown"] == ["RSS: its <process> is gone"]
    assert made["lacks"] == "1 figure unknown, and why"
    assert "RSS: its &lt;process&gt; is gone" in still(made)
    some = table([*PARTS, Part("/state/app/users", 1, 5)])
    assert "RSS" in heads(some)
    assert "lacks" not in some
    assert some["columns"][2]["texts"] == ["unknown"] * 3 + ["5 B"]


def test_bytes_that_a_text_stands_for_are_no_column_of_their_own() -> None:
    read = KeyUse("anna", b"anna", 1, 10, 0.5, 0, 0)
    assert heads(table([read, read])) == ["Key", "Rows", "Data", "Share"]
    hexed = KeyUse(7, (7).to_bytes(8, "big"), 1, 10, 0.5, 2, 0)
    assert heads(table([read, hexed])) == ["Key", "Key raw", "Rows", "Data", "Share", "Error rows"]


def test_a_span_is_told_where_it_is_more_than_one_start() -> None:
    one, many = (WindowUse(1_700_000_000_000, span, 1, 10, 0.2) for span in (1, 60_000))
    assert "Span" not in heads(table([one, one], "windows"))
    assert "Span" in heads(table([one, many], "windows"))


def test_a_table_says_how_many_rows_it_has_and_of_how_many_it_has_the_largest() -> None:
    assert table(PARTS)["label"] == "3 parts"
    assert "search" not in table(PARTS), "three rows are seen, not searched"
    many = [Part(f"/a/{at}", at, at) for at in range(20)]
    made = table(many, of=50)
    assert (made["label"], made["noun"]) == ("Parts", "parts, the largest of 50")
    assert made["one"] == "part, the largest of 50"
    assert made["search"] == ["path"]
    assert table(many, of=20)["noun"] == "parts"


def test_a_share_is_told_in_percent_and_what_is_none_as_it_is() -> None:
    told = {0.0: "0 %", 0.000_012: "0.0012 %", 1 / 18: "5.6 %", 1 / 3: "33 %", 0.999: "99.9 %"}
    assert {each: printed(each, "share") for each in told} == told
    assert printed(1.0, "share") == "100 %"
    assert printed(7.5, "share") == "7.5"
    assert printed("nullptr", "merge_operator") == "none"
    assert printed("kCompactionStyleUniversal") == "universal"


def test_a_frame_is_shown_as_it_was_given() -> None:
    frame = pd.DataFrame({"key": ["a"], "key_raw": ["a"], "error_rows": [0], "path": ["/x"]})
    assert heads(rows_of(frame)) == ["Key", "Key raw", "Error rows", "Path"]
