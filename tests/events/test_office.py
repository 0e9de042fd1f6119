"""The events of one busy address are what their program makes, and beside the sample's users."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.events import office


@pytest.fixture(scope="module")
def kept() -> bytes:
    return gzip.decompress((office.FOLDER / "events.json.gz").read_bytes())


def test_the_file_is_what_the_program_makes(kept: bytes) -> None:
    assert kept == office.content()


def test_it_is_one_address_that_the_sample_has_not_and_as_many_events_as_are_told(
    kept: bytes,
) -> None:
    events = [json.loads(line) for line in kept.splitlines()]
    assert {each["user"] for each in events} == {office.ADDRESS}
    assert f"{len(events):,} events of one" in (office.FOLDER.parent / "README.md").read_text()
    for path in (office.FOLDER.parent / "sample").iterdir():
        assert office.ADDRESS.encode() not in gzip.decompress(path.read_bytes())
