"""How many rows a store has: about, by whom that is said, and exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kstoolkit as kst
from kstoolkit.stores.comparing.folders import listed
from tests.stores.streamsstores import int64, write_minutes, write_store

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_tells_about_how_many_rows_it_has_and_counts_them_if_asked(tmp_path: Path) -> None:
    plain = write_store(tmp_path / "plain", default={b"%d" % n: int64(n) for n in range(9)})
    minutes = write_minutes(tmp_path / "minutes", ["Anna", "Bo"])
    for path, number in {plain: 9, minutes: 36}.items():
        with kst.open_store(path) as store:
            [figure] = store.count().figures()
            assert (figure.value, str(figure.source)) == (number, "store on disk")
            assert store.count(exact=True) == number


def test_what_nobody_counted_is_unknown_until_it_is_read() -> None:
    rows = listed("latest", [(b"anna", b"3"), (b"bo", b"4")])
    [figure] = rows.count().figures()
    assert figure.value is None
    assert "count(exact=True)" in figure.text
    assert rows.count(exact=True) == 2
