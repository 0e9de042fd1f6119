"""Which options there are, and whether their values make sense: alone, and together."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.words import CHOICES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.rocksdb.profiles.optionset import OptionSet


_HASH_INDEX_HINT = "Set prefix_bytes to the length of what your lookups have in common."


class Section(StrEnum):
    """Where RocksDB's OPTIONS files hold an option."""

    STORE = "DBOptions"
    FAMILY = "CFOptions"
    TABLE = "TableOptions/BlockBasedTable"
    NOWHERE = "not in OPTIONS files"


@dataclass(frozen=True, slots=True)
class Option:
    """What is known of an option beside its name.

    Parameters
    ----------
    section
        Where OPTIONS files hold it.
    least, most
        The smallest and largest number that makes sense; None: no limit.
    default
        RocksDB 9.8.4's own value.
    inside
        The option of an OPTIONS file whose braces hold it, if any.
    """

    section: Section
    default: Any
    least: float | None = None
    most: float | None = None
    inside: str | None = None


def family(
    default: Any, least: float = 0, most: float | None = None, inside: str | None = None
) -> Any:
    """Return a dataclass field for an option of a column family."""
    return _field(Option(Section.FAMILY, default, least, most, inside))


def table(default: Any, least: float = 0, most: float | None = None) -> Any:
    """Return a dataclass field for an option of the block-based table."""
    return _field(Option(Section.TABLE, default, least, most))


def store(default: Any, least: float = 0) -> Any:
    """Return a dataclass field for an option of a whole store."""
    return _field(Option(Section.STORE, default, least))


def memory(default: Any, most: float | None = None) -> Any:
    """Return a dataclass field for a property of the cache or the write-buffer manager."""
    return _field(Option(Section.NOWHERE, default, 0, most))


def io(default: Any) -> Any:
    """Return a dataclass field for reading, writing and what else no OPTIONS file holds."""
    return _field(Option(Section.NOWHERE, default, 0))


def _field(option: Option) -> Any:
    return field(default=option.default, metadata={"option": option})


def options_of(profile: type[OptionSet]) -> dict[str, Option]:
    """Return every option of a profile by name, in its order."""
    return {
        each.name: each.metadata["option"] for each in fields(profile) if "option" in each.metadata
    }


def check_text(name: str, value: object) -> None:
    """Check that what a profile is called, or is for, is text.

    Raises
    ------
    ConfigurationError
        If it is not.
    """
    if not isinstance(value, str):
        message = f"A profile's {name} is {value!r}, which is no text."
        raise ConfigurationError(message, hint=f"Give one, such as {name}='mine'.")


def checked(profile: OptionSet) -> dict[str, Any]:
    """Return the options that RocksDB itself would set otherwise, with what it would set.

    Raises
    ------
    ConfigurationError
        If a value makes no sense, or two contradict each other.
    """
    values = {name: getattr(profile, name) for name in options_of(type(profile))}
    for name, option in options_of(type(profile)).items():
        _check_known(name, values[name], profile.unknown)
        if values[name] is not None:
            _check(name, values[name], option)
    _check_together(values)
    return _sanitized(values)


def _check_known(name: str, value: Any, unknown: Mapping[str, str]) -> None:
    if value is None and name not in unknown:
        message = f"{name} is None, and why it is unknown isn't said."
        raise ConfigurationError(message, hint=f"Give a value, or unknown={{{name!r}: 'why'}}.")


def _check(name: str, value: Any, option: Option) -> None:
    if name in CHOICES:
        _check_words(name, value)
    elif not _same_kind(value, option.default):
        message = f"{name} is {value!r}, which is no {type(option.default).__name__}."
        raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default!r}.")
    elif not isinstance(value, bool):
        _check_range(name, value, option)


def _same_kind(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))


def _check_words(name: str, value: Any) -> None:
    several = name == "compression_per_level" and isinstance(value, (tuple, list))
    wrong = [word for word in (value if several else [value]) if word not in CHOICES[name]]
    if wrong:
        message = f"{name} can't be {wrong[0]!r}."
        raise ConfigurationError(message, hint=f"It can be: {', '.join(CHOICES[name])}.")


def _check_range(name: str, value: float, option: Option) -> None:
    if option.least is not None and value < option.least:
        message = f"{name} is {value}; the least that RocksDB takes is {option.least}."
        raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default}.")
    if option.most is not None and value > option.most:
        message = f"{name} is {value}; the most that RocksDB takes is {option.most}."
        raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default}.")


def _check_together(values: dict[str, Any]) -> None:
    _check_order(values, "level0_slowdown_writes_trigger", "level0_file_num_compaction_trigger")
    _check_order(values, "level0_stop_writes_trigger", "level0_slowdown_writes_trigger")
    if values["hard_pending_compaction_bytes_limit"]:  # zero is no limit
        _check_order(
            values, "hard_pending_compaction_bytes_limit", "soft_pending_compaction_bytes_limit"
        )
    if values["index_type"] == "hash_search" and values["prefix_bytes"] == 0:
        message = "index_type is 'hash_search', which needs a prefix, and prefix_bytes is 0."
        raise ConfigurationError(message, hint=_HASH_INDEX_HINT)
    if values["partition_filters"] and values["index_type"] not in {"two_level_search", None}:
        message = (
            f"partition_filters needs index_type 'two_level_search', not {values['index_type']!r}."
        )
        raise ConfigurationError(message, hint="Set both, or neither.")
    if values["write_buffer_manager_in_cache"] and values["block_cache_bytes"] == 0:
        message = "The write-buffer manager is to take its budget from a block cache of 0 bytes."
        raise ConfigurationError(message, hint="Give block_cache_bytes, or take it from no cache.")
    if values["sync"] and values["disable_wal"]:
        message = "sync is True and disable_wal too: there is no log to wait for."
        raise ConfigurationError(message, hint="Choose one of them.")


def _check_order(values: dict[str, Any], upper: str, lower: str) -> None:
    if values[upper] is None or values[lower] is None or values[upper] >= values[lower]:
        return
    message = f"{upper} is {values[upper]}, below {lower}, which is {values[lower]}."
    raise ConfigurationError(message, hint="Raise the first or lower the second.")


def _sanitized(values: dict[str, Any]) -> dict[str, Any]:
    """Return what SanitizeOptions of RocksDB would change.

    Source: db/column_family.cc and db/db_impl/db_impl_open.cc.
    """
    found: dict[str, Any] = {}
    if values["compression_per_level"] is not None:
        found["compression_per_level"] = tuple(values["compression_per_level"])
    if values["compaction_style"] not in {"level", None}:
        found["level_compaction_dynamic_level_bytes"] = False
    every = values["periodic_compaction_seconds"]
    if values["compaction_style"] == "universal" and values["ttl"] and every is not None:
        found["periodic_compaction_seconds"] = min(every or values["ttl"], values["ttl"])
    if values["atomic_flush"]:
        found["min_write_buffer_number_to_merge"] = 1
    if values["bytes_per_sync"] == 0 and values["rate_limit_bytes_per_second"]:
        found["bytes_per_sync"] = 1 << 20
    if values["delayed_write_rate"] == 0:
        found["delayed_write_rate"] = values["rate_limit_bytes_per_second"] or 16 << 20
    return found
