"""What an OPTIONS file says of each of a profile's options, and why it is silent of some."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import FormatError, InputError
from kstoolkit.rocksdb.files.optionsections import option_in, parse_options
from kstoolkit.rocksdb.profiles.optioncheck import Section
from kstoolkit.rocksdb.profiles.words import CHOICES, word_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.optionsections import OptionsSection
    from kstoolkit.rocksdb.profiles.optioncheck import Option


_FILE_NAME = re.compile(r"OPTIONS-(\d+)")
_INSIDE = re.compile(r"(\w+)=([^;{}]*)")
_BLOOM = re.compile(r"(?:rocksdb\.)?bloomfilter:(?P<bits>[\d.]+)(?::.*)?")
_PREFIX = re.compile(r"(?:rocksdb\.FixedPrefix\.|fixed:)(?P<length>\d+)")
_NONE = {None, "", "nullptr"}
_HINT = "Give an OPTIONS-* file, or the folder of a store that RocksDB has opened."
_OBJECTS = "OPTIONS files hold no caches, budgets, limiters or statistics"
_CALLS = "reads and writes are given it one by one; OPTIONS files don't hold it"
_OF_CALLS = {"fill_cache", "readahead_bytes", "prefix_same_as_start", "disable_wal", "sync"}

_Entries = dict[Section, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Found:
    """What an OPTIONS file says of a profile's options.

    Parameters
    ----------
    name, purpose
        The store's folder, and which file of which RocksDB this is from.
    values
        Each option's value; None if it is unknown.
    unknown
        For each unknown option: why.
    """

    name: str
    purpose: str
    values: dict[str, Any]
    unknown: dict[str, str]


def find_options(
    path: str | os.PathLike[str], options: Mapping[str, Option], column_family: str
) -> Found:
    """Return the options of a column family, and why some are unknown.

    Raises
    ------
    InputError
        If there is no OPTIONS file, it can't be read, it has no such column family, or ``path`` is
        a file of another kind.
    FormatError
        If that of a store's folder is no OPTIONS file of RocksDB.
    """
    file = _options_file(Path(path))
    try:
        return _found(file, options, column_family)
    except FormatError as error:
        if file != Path(path):
            raise
        message = f"{file} is no OPTIONS file of RocksDB."
        raise InputError(message, hint=_HINT) from error


def _found(file: Path, options: Mapping[str, Option], column_family: str) -> Found:
    sections = parse_options(_text(file))
    version = option_in(sections, "Version", "rocksdb_version") or "an unknown version"
    entries = _entries(sections, column_family, file)
    values: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, option in options.items():
        values[name], why = _value(name, option, entries, version)
        if why:
            unknown[name] = why
    purpose = f"What RocksDB {version} was given for {column_family!r}, by {file.name}."
    return Found(file.absolute().parent.name, purpose, values, unknown)


def _options_file(path: Path) -> Path:
    try:
        if path.is_file():
            return path
        if not path.is_dir():
            message = f"There is no {path}."
            raise InputError(message, hint=_HINT)
        files = list(path.iterdir())
    except OSError as error:
        raise _unreadable(path, error) from error
    numbered = {int(match[1]): file for file in files if (match := _FILE_NAME.fullmatch(file.name))}
    if not numbered:
        message = f"The folder {path} has no OPTIONS file."
        raise InputError(message, hint=_HINT)
    return numbered[max(numbered)]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{file} is no OPTIONS file of RocksDB: byte {error.start} is no text."
        raise FormatError(message, hint=_HINT) from error
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    message = f"{path} can't be read: {error.strerror}."
    return InputError(message, hint=f"{_HINT} Check that you may read it.")


def _entries(sections: Records[OptionsSection], column_family: str, file: Path) -> _Entries:
    families = sorted(
        each.column_family
        for each in sections
        if each.kind == Section.FAMILY and each.column_family
    )
    if not families:
        message = f"{file} is no OPTIONS file of RocksDB: it has no column family."
        raise FormatError(message, hint=_HINT)
    if column_family not in families:
        message = f"{file} has no column family {column_family!r}."
        raise InputError(message, hint=f"It has: {', '.join(families)}.")
    return {
        Section(each.kind): each.options
        for each in sections
        if each.kind in set(Section) and each.column_family in {None, column_family}
    }


def _value(name: str, option: Option, entries: _Entries, version: str) -> tuple[Any, str | None]:
    """Return an option's value and None, or None and why it is unknown."""
    if option.section is Section.NOWHERE:
        return _of_object(name, entries.get(Section.TABLE, {}))
    if option.section not in entries:
        return None, f"the OPTIONS file has no section {option.section.value}"
    if name == "bloom_bits_per_key":
        return _bloom_bits(entries[Section.TABLE].get("filter_policy"))
    if name == "prefix_bytes":
        return _prefix_length(entries[Section.FAMILY].get("prefix_extractor"))
    text = _written(name, option, entries[option.section])
    if text is None:
        empty = name == "compression_per_level"  # which isn't written if it is empty
        return ((), None) if empty else (None, f"RocksDB {version} wrote no such option")
    return _parsed(name, option, text)


def _of_object(name: str, table: dict[str, str]) -> tuple[Any, str | None]:
    if name == "block_cache_bytes" and table.get("no_block_cache") == "true":
        return 0, None
    return None, _CALLS if name in _OF_CALLS else _OBJECTS


def _written(name: str, option: Option, entries: dict[str, str]) -> str | None:
    if option.inside is None:
        return entries.get(name)
    within = dict(_INSIDE.findall(entries.get(option.inside, "")))
    return within.get(name.partition("_")[2])


def _parsed(name: str, option: Option, text: str) -> tuple[Any, str | None]:
    if name in CHOICES:
        return _worded(name, option, text)
    if isinstance(option.default, bool):
        known = {"true": True, "false": False}.get(text)
        return known, None if known is not None else f"the OPTIONS file says {text!r}"
    try:
        return type(option.default)(text), None
    except ValueError:
        return None, f"the OPTIONS file says {text!r}"


def _worded(name: str, option: Option, text: str) -> tuple[Any, str | None]:
    several = isinstance(option.default, tuple)
    parts = [part for part in text.split(":") if part] if several else [text]
    words = [word_of(name, part) for part in parts]
    if None in words:
        return None, f"the OPTIONS file says {text!r}, for which there is no word here"
    return (tuple(words) if several else words[0]), None


def _bloom_bits(policy: str | None) -> tuple[float | None, str | None]:
    if policy in _NONE:
        return 0.0, None
    match = _BLOOM.fullmatch(str(policy))
    if match is None:
        return None, f"the OPTIONS file names the filter {policy!r} without its bits"
    return float(match["bits"]), None


def _prefix_length(extractor: str | None) -> tuple[int | None, str | None]:
    if extractor in _NONE:
        return 0, None
    match = _PREFIX.fullmatch(str(extractor))
    if match is None:
        return None, f"the OPTIONS file names {extractor!r}, which is no prefix of fixed length"
    return int(match["length"]), None
