"""What a figure is called for people, and its unit: its name tells both."""

from __future__ import annotations

from kstoolkit.units import format_bytes, format_count

_UNITS = {
    "_bytes": "bytes",
    "_ms": "ms",
    "_us": "µs",
    "_s": "s",
    "_percent": "%",
    "_ratio": "share",
    "_amplification": "times",
    "_per_user_byte": "times",
    "_usefulness": "share",
}
_WORDS = {"level_bytes": "size of levels", "level_files": "files of levels"}
_COUNTED = {"times": ".2f", "share": ".3f", "ms": ",.1f", "µs": ",.1f", "s": ",.2f", "%": ".1f"}


def unit_of(figure: str) -> str:
    """Return the unit that a figure's name tells; ``"count"`` if it tells none.

    >>> unit_of("stall_ms"), unit_of("write_amplification"), unit_of("writes")
    ('ms', 'times', 'count')
    """
    return next((unit for end, unit in _UNITS.items() if figure.endswith(end)), "count")


def words_of(figure: str) -> str:
    """Return a figure's name for people, without its unit.

    >>> words_of("peak_disk_bytes"), words_of("num_files"), words_of("put_p99_us")
    ('peak disk', 'files', 'put p99')
    """
    if figure in _WORDS:
        return _WORDS[figure]
    kept = {"_amplification", "_per_user_byte", "_usefulness", "_ratio"}
    end = next((end for end in _UNITS if figure.endswith(end) and end not in kept), "")
    return figure.removesuffix(end).removeprefix("num_").replace("_", " ").replace("level0", "L0")


def with_unit(figure: str) -> str:
    """Return a figure's name for people, with its unit unless the numbers print it.

    >>> with_unit("stall_ms"), with_unit("disk_bytes")
    ('stall, ms', 'disk')
    """
    unit = unit_of(figure)
    return f"{words_of(figure)}, {unit}" if unit in {"ms", "s", "µs", "%"} else words_of(figure)


def capital(words: str) -> str:
    """Return words as they begin a sentence; RocksDB's own names stay as they are.

    >>> capital("L0 files"), capital("disk"), capital("rocksdb.stall.micros")
    ('L0 files', 'Disk', 'rocksdb.stall.micros')
    """
    return words if words.startswith("rocksdb.") else words[:1].upper() + words[1:]


def printed(figure: str, value: float) -> str:
    """Return a value with its unit.

    >>> printed("a_bytes", 2048), printed("write_amplification", 2.5), printed("writes", 1234)
    ('2.0 KiB', '2.50', '1,234')
    """
    unit = unit_of(figure)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "count":
        return format_count(value)
    text = format(value, _COUNTED[unit])
    return text if unit in {"times", "share"} else f"{text} {unit}"
