"""What a store was configured with, as its OPTIONS file tells it.

RocksDB writes a new file at each open and each change of options; the highest number is in force.
It is an INI file of sections such as ``[CFOptions "default"]``; in names and values a backslash
goes before what would end them (RocksDB's ``options/options_parser.cc``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.rocksdb.faults import NoStoreError

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"OPTIONS-(\d+)")
_TITLE = re.compile(r'\[\s*([\w/]+)\s*(?:"(.*)")?\s*\]')
_ESCAPED = re.compile(r"\\(.)")
_COMMENT = re.compile(r"(?<!\\)#")  # after a backslash, it is part of a value
_CONTROLS = {"n": "\n", "r": "\r"}


@dataclass(frozen=True, slots=True)
class OptionsSection(Record):
    """One section of an OPTIONS file.

    Attributes
    ----------
    kind
        ``Version``, ``DBOptions``, ``CFOptions`` or ``TableOptions/BlockBasedTable``.
    column_family
        Whose options they are; None if they are the whole store's.
    options
        Each option's value as the file has it: text, in RocksDB's own terms and units.
    """

    kind: str
    column_family: str | None
    options: dict[str, str] = of_source(Source.OPTIONS)

    def __repr__(self) -> str:
        whose = "" if self.column_family is None else f" of {self.column_family!r}"
        return f"OptionsSection({self.kind}{whose}: {len(self.options)} options)"


def read_options(folder: Path) -> Records[OptionsSection]:
    """Return the sections of the newest OPTIONS file; without one it is a NoStoreError."""
    found = option_files(folder)
    if not found:
        message = f"No OPTIONS file in {folder}."
        raise NoStoreError(message, hint="RocksDB writes one at each open; was it removed?")
    return parse_options(found[0].read_text(encoding="utf-8", errors="replace"))


def option_files(folder: Path) -> list[Path]:
    """Return the OPTIONS files in a folder, the newest first."""
    numbered = [(each, found) for each in folder.iterdir() if (found := _NAME.fullmatch(each.name))]
    return [each for each, found in sorted(numbered, key=lambda pair: -int(pair[1][1]))]


def parse_options(text: str) -> Records[OptionsSection]:
    r"""Return the sections of the text of an OPTIONS file, in its order.

    >>> parse_options('[CFOptions "a"]\n  num_levels=7  # as ever\n')[0].options
    {'num_levels': '7'}
    """
    sections: list[OptionsSection] = []
    for each in text.splitlines():
        line = (_COMMENT.split(each, maxsplit=1)[0] if "#" in each else each).strip()
        if line.startswith("[") and (title := _TITLE.fullmatch(line)):
            family = None if title[2] is None else _unescaped(title[2])
            sections.append(OptionsSection(title[1], family, {}))
        elif line:
            name, _, value = line.partition("=")
            _last(sections, line).options[name.strip()] = _unescaped(value.strip())
    _last(sections, text[:40])
    return Records(sections, "sections")


def option_in(
    sections: Records[OptionsSection], kind: str, name: str, family: str | None = None
) -> str | None:
    """Return one option's text, or None if the file does not have it."""
    for section in sections:
        if section.kind == kind and section.column_family == family and name in section.options:
            return section.options[name]
    return None


def _last(sections: list[OptionsSection], at: str) -> OptionsSection:
    if not sections:
        message = f"This is no OPTIONS file of RocksDB: no section before {at!r}."
        raise FormatError(message, hint="Give the folder of a store, or an OPTIONS-<number> file.")
    return sections[-1]


def _unescaped(text: str) -> str:
    if "\\" not in text:  # thousands of stores are told in seconds
        return text
    return _ESCAPED.sub(lambda found: _CONTROLS.get(found[1], found[1]), text)
