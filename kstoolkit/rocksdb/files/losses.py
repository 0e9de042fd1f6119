"""What of a damaged store is not in what is read of it, in one line."""

from __future__ import annotations

from dataclasses import dataclass, field

from kstoolkit.records import counted
from kstoolkit.units import format_bytes

_NAMED = 3
_MISSING = "is missing"


@dataclass(slots=True)
class Losses:
    """What was lost of a store, gathered while it is opened and read.

    Attributes
    ----------
    sizes_bytes
        The store's SST files, lost ones included, and how large each is meant to be.
    tables
        The lost ones, each with why.
    is_without_levels
        Whether the MANIFEST was made anew: which file is newer is then known by its rows alone.
    beside
        What else is to be said, a sentence's part each.
    blocks
        The blocks that could not be read, by file and place: how many bytes each has.
    """

    sizes_bytes: dict[str, int] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    is_without_levels: bool = False
    beside: list[str] = field(default_factory=list)
    blocks: dict[tuple[str, int | None], int] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """All of it, in one line; None if nothing is known to be lost.

        Examples
        --------
        >>> losses = Losses(beside=["its WAL is torn"])
        >>> losses.blocks["000012.sst", 20304] = 4056
        >>> print(losses.text)
        its WAL is torn; 1 block of 000012.sst (4.0 KiB) can't be read: keys in it are absent ...
        >>> print(Losses().text)
        None
        """
        parts = [self._of_tables()] if self.tables else []
        parts += self.beside
        parts += [self._of_blocks()] if self.blocks else []  # the one part that grows
        return "; ".join(parts) or None

    def _of_tables(self) -> str:
        count = len(self.tables)
        why = set(self.tables.values())
        what = (
            ("is" if count == 1 else "are") + " missing" if why == {_MISSING} else "can't be read"
        )
        names = [
            name if why == {_MISSING} else f"{name} {how}" for name, how in self.tables.items()
        ]
        more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
        whose = "it" if count == 1 else "they"
        return (
            f"{count:,} of {counted(len(self.sizes_bytes), 'SST files')} {what} "
            f"({', '.join(names[:_NAMED])}{more}{self._sizes()}): keys that {whose} held are "
            "absent or show an older value, and deleted ones may be back"
        )

    def _sizes(self) -> str:
        lost = sum(self.sizes_bytes[name] for name in self.tables)
        return f"; {format_bytes(lost)} of {format_bytes(sum(self.sizes_bytes.values()))}"

    def _of_blocks(self) -> str:
        files = sorted({name for name, _ in self.blocks})
        count, size = len(self.blocks), sum(self.blocks.values())
        more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
        whose = "it" if count == 1 else "them"
        sizes = f" ({format_bytes(size)})" if size else ""
        return (
            f"{counted(count, 'blocks')} of {', '.join(files[:_NAMED])}{more}{sizes} can't be "
            f"read: keys in {whose} are absent or show an older value"
        )
