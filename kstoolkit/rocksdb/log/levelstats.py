"""A row of the tables of compactions that RocksDB dumps: one a level, each cell by its column."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from kstoolkit.records import Record, Source, of_source
from kstoolkit.units import format_bytes, format_count

NOT_DUMPED = "the dump doesn't hold it"
"""Why a figure of a dump is unknown."""

_SCALE = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_IN_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


@dataclass(frozen=True, slots=True, repr=False)
class LevelStats(Record):
    """A row of a dump's table of compactions.

    Parameters
    ----------
    column_family, level
        Whose; ``"L0"`` ..., ``"Sum"`` since the store was opened, ``"Int"`` since the dump before.
    num_files, size_bytes
        What the level holds; as the dump has it, the size is rounded.
    write_amplification
        Bytes written by compactions into the level to bytes that came from above; for ``Sum``, all
        that flushes and compactions wrote to what was flushed.
    compaction_s, num_compactions
        Time and number of the compactions into the level.
    cells
        Every cell of the row as it was written, by the name of its column.
    """

    column_family: str
    level: str
    num_files: int | None = of_source(Source.LOG)
    size_bytes: int | None = of_source(Source.LOG)
    write_amplification: float | None = of_source(Source.LOG)
    compaction_s: float | None = of_source(Source.LOG)
    num_compactions: int | None = of_source(Source.LOG)
    cells: dict[str, str] = field(default_factory=dict, repr=False)
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_row(cls, column_family: str, names: list[str], line: str) -> LevelStats | None:
        """Return a row by the names of its columns; None if it doesn't fit them.

        Examples
        --------
        >>> row = "  L6     15/0   906.43 KB   3.2"
        >>> LevelStats.of_row("default", ["Level", "Files", "Size", "W-Amp"], row).size_bytes
        928184
        """
        parts: list[str] = []
        for part in line.split():
            if part in _IN_BYTES and parts:
                parts[-1] += f" {part}"
            else:
                parts.append(part)
        if len(parts) != len(names):
            return None
        cells = dict(zip(names, parts, strict=True))
        values = {
            "num_files": _whole(cells.get("Files", "").partition("/")[0]),
            "size_bytes": _size(cells.get("Size", "")),
            "write_amplification": decimal_in(cells.get("W-Amp", "")),
            "compaction_s": decimal_in(cells.get("Comp(sec)", "")),
            "num_compactions": _whole(cells.get("Comp(cnt)", "")),
        }
        unknown = {name: NOT_DUMPED for name, value in values.items() if value is None}
        return cls(column_family, parts[0], cells=cells, unknown=unknown, **values)  # type: ignore[arg-type] # by name

    def __repr__(self) -> str:
        ratio = self.write_amplification
        return (
            f"LevelStats({self.column_family!r}, {self.level}, "
            f"{format_count(self.num_files)} files, {format_bytes(self.size_bytes)}, "
            f"write amplification {'unknown' if ratio is None else format(ratio, '.1f')})"
        )


def decimal_in(text: str) -> float | None:
    """Return a number; None if the text is none, or not a finite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _whole(text: str) -> int | None:
    scale = _SCALE.get(text[-1:], 1)
    number = decimal_in(text[:-1] if scale > 1 else text)
    return None if number is None else round(number * scale)


def _size(text: str) -> int | None:
    number, _, unit = text.partition(" ")
    size = decimal_in(number)
    return None if size is None else round(size * _IN_BYTES.get(unit, 1))
