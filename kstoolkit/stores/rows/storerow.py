"""One row of a store, as its application would see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kstoolkit.stores.rows.detailtext import origin_text, validity_text
from kstoolkit.stores.rows.valuetext import hex_text, moment_text, value_text


@dataclass(frozen=True, slots=True)
class StoreRow:
    """One row, as its application would see it.

    Parameters
    ----------
    key, value
        What the serdes made of the bytes: :class:`~kstoolkit.formats.serdes.Undecoded` where they
        could make nothing of them. A value is None where the store holds none.
    window_start_ms, window_end_ms
        The window or session, epoch ms UTC; None where there is none, or where neither the store
        nor the user says when it ends.
    timestamp_ms
        The row's own time, epoch ms UTC.
    headers
        Record headers, (name, value) each; None for a kind of store without them.
    key_bytes, value_bytes
        The application's own bytes; all bytes on disk, if there is a ``problem``.
    problem
        Why the row could not be taken apart.
    is_expiry
        Whether ``timestamp_ms`` is when the row expires.
    details
        What this kind of store holds beside that, by name: see
        :func:`~kstoolkit.stores.rows.details.details_of`. Empty for most kinds.
    """

    key: Any
    value: Any
    window_start_ms: int | None
    window_end_ms: int | None
    timestamp_ms: int | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    key_bytes: bytes
    value_bytes: bytes | None
    problem: str | None = None
    is_expiry: bool = field(default=False, kw_only=True)
    details: dict[str, Any] = field(default_factory=dict, kw_only=True, hash=False)

    def __str__(self) -> str:
        r"""Return the row as people read it.

        Examples
        --------
        >>> print(StoreRow("a", 7, 0, 60_000, None, None, b"a", b"7"))
        'a' [1970-01-01 00:00:00.000 to 1970-01-01 00:01:00.000]: 7
        >>> print(StoreRow(b"\x00?", None, None, None, None, None, b"\x00?", b"", "too short"))
        0x003f: 0x (too short)
        >>> told = {"side": "left"}
        >>> print(StoreRow("a", 7, None, None, 0, None, b"a", b"7", details=told))
        'a' left at 1970-01-01 00:00:00.000: 7
        """
        window = "" if self.window_start_ms is None else f" [{moment_text(self.window_start_ms)}"
        if self.window_start_ms is not None:
            end = self.window_end_ms
            window += "]" if end is None else f" to {moment_text(end)}]"
        at = "until" if self.is_expiry else "at"
        at = "" if self.timestamp_ms is None else f" {at} {moment_text(self.timestamp_ms)}"
        if self.problem is not None:  # which is what both cells would say
            raw = f"{hex_text(self.key_bytes)}: {hex_text(self.value_bytes)}"
            return f"{raw} ({self.problem})"
        beside, valid = "", ""
        if self.details:
            beside, valid = origin_text(self.details), validity_text(self.details)
        return f"{value_text(self.key)}{beside}{window}{at}{valid}: {value_text(self.value)}"

    def to_dict(self, store: str) -> dict[str, Any]:
        """Return the fields that ``kstoolkit rows --json`` prints; ``store`` is its name.

        ``details`` is among them only where the row has some.

        Examples
        --------
        >>> row = StoreRow("a", 7, 0, None, None, (("h", b"x"),), b"a", b"7")
        >>> row.to_dict("counts")["headers"], row.to_dict("counts")["value_hex"]
        ([['h', '78']], '37')
        """
        headers = self.headers
        fields = {
            "store": store,
            "key": self.key,
            "window_start_ms": self.window_start_ms,
            "window_end_ms": self.window_end_ms,
            "timestamp_ms": self.timestamp_ms,
            "value": self.value,
            "headers": None if headers is None else [[name, _hex(at)] for name, at in headers],
            "key_hex": self.key_bytes.hex(),
            "value_hex": _hex(self.value_bytes),
        }
        return fields | {"details": self.details} if self.details else fields


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()
