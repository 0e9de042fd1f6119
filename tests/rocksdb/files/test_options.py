from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.rocksdb.files.options import option_in, parse_options, read_options
from tests.rocksdb.madestores import make_store

if TYPE_CHECKING:
    from pathlib import Path

NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
VALUES = st.text(st.characters(codec="ascii", exclude_categories=["Cc"])).map(str.strip)
ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "#": "\\#", ":": "\\:"}


def escaped(value: str) -> str:
    return "".join(ESCAPES.get(each, each) for each in value)


@given(st.dictionaries(NAMES, VALUES), VALUES)
def test_what_is_written_is_read_again(options: dict[str, str], family: str) -> None:
    lines = "".join(f"  {name}={escaped(value)}\n" for name, value in options.items())
    (section,) = parse_options(f'# head\n\n[CFOptions "{escaped(family)}"]  # x\n{lines}\n')
    assert (section.column_family, section.options) == (family, options)


def test_the_newest_options_of_a_store_are_read_section_by_section(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    (made / "OPTIONS-000001").write_text("[Version]\n  rocksdb_version=0.1\n")
    found = read_options(made)
    kinds = [(each.kind, each.column_family) for each in found]
    assert kinds[:2] == [("Version", None), ("DBOptions", None)]
    assert ("TableOptions/BlockBasedTable", "other") in kinds
    assert option_in(found, "CFOptions", "write_buffer_size", "default") == str(1 << 20)
    assert option_in(found, "Version", "rocksdb_version") == "9.8.4"
    assert option_in(found, "CFOptions", "write_buffer_size", "zz") is None


def test_every_option_has_its_source() -> None:
    section = parse_options("[DBOptions]\n  max_open_files=-1\n")[0]
    (figure,) = section.figures()
    assert figure.source == "the OPTIONS file"
    assert repr(section) == "OptionsSection(DBOptions: 1 options)"


@pytest.mark.parametrize("text", ["", "# nothing\n", "max_open_files=-1\n"])
def test_a_text_that_is_no_options_file_is_said_to_be_none(text: str) -> None:
    with pytest.raises(FormatError, match="no OPTIONS file"):
        parse_options(text)


def test_a_folder_without_options_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError):
        read_options(tmp_path)
