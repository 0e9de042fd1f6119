"""Who takes a store's room: which keys, which beginnings of keys, which windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstoolkit.formats.columns import ByteColumn, Undecoded
from kstoolkit.formats.serdes import guess_serde, serde_of
from kstoolkit.records import Records
from kstoolkit.stores.growth.clock import Clock
from kstoolkit.stores.growth.heavyhitters import HeavyHitters
from kstoolkit.stores.growth.records import KeyUse, PrefixUse, WindowUse

if TYPE_CHECKING:
    from kstoolkit.formats.serdes import Serde
    from kstoolkit.stores.growth.records import Horizon
    from kstoolkit.stores.growth.tallies import Tallies


def keys_of(tallies: Tallies, top: int, serde: Serde | None) -> Records[KeyUse]:
    """Return the keys that take most, read by a serde, or by the one that they look like."""
    hitters = tallies.keys
    if tallies.fields is not None:
        names = tallies.fields.fields.by
        return Records(_by_fields(tallies, names, hitters, top), "keys")
    totals = hitters.top(top)
    raw = ByteColumn.from_arrow(totals.keys)
    chosen = serde_of(guess_serde(raw).serde) if serde is None else serde
    rows = zip(
        chosen.decode(raw).to_list(raw),
        raw.to_list(),
        totals.num_rows.tolist(),
        totals.data_bytes.tolist(),
        strict=True,
    )
    uses = [
        KeyUse(
            _readable(value),
            key,
            num_rows,
            size,
            share_of(size, tallies),
            hitters.error_rows,
            hitters.error_bytes,
        )
        for value, key, num_rows, size in rows
    ]
    return Records(uses, "keys")


def fields_of(tallies: Tallies, top: int) -> dict[str, Records[KeyUse]]:
    """Return the values of each field of keys that take most; none if a key is one field."""
    fields = tallies.fields
    if fields is None:
        return {}
    return {
        name: Records(_by_fields(tallies, (name,), hitters, top), f"values of {name}")
        for name, hitters in fields.each.items()
    }


def _by_fields(
    tallies: Tallies, names: tuple[str, ...], hitters: HeavyHitters, top: int
) -> list[KeyUse]:
    totals, fields = hitters.top(top), tallies.fields
    rows = zip(
        [] if fields is None else map(fields.key, totals.keys.to_pylist()),
        totals.num_rows.tolist(),
        totals.data_bytes.tolist(),
        strict=True,
    )
    uses = []
    for found, num_rows, size in rows:
        value = found if len(names) > 1 else found[names[0]]
        raw = value.encode() if isinstance(value, str) else None
        bounds = hitters.error_rows, hitters.error_bytes
        uses.append(KeyUse(value, raw, num_rows, size, share_of(size, tallies), *bounds))
    return uses


def prefixes_of(tallies: Tallies, top: int) -> Records[PrefixUse]:
    """Return the beginnings of keys that take most."""
    tally = tallies.prefixes
    totals = tally.top(top)
    if totals is None:
        return Records((), "prefixes")
    bounds = (tally.error_rows, tally.error_bytes) if isinstance(tally, HeavyHitters) else (0, 0)
    rows = zip(
        totals.keys.to_pylist(), totals.num_rows.tolist(), totals.data_bytes.tolist(), strict=True
    )
    uses = [
        PrefixUse(
            prefix_text(raw or b""), raw or b"", num_rows, size, share_of(size, tallies), *bounds
        )
        for raw, num_rows, size in rows
    ]
    return Records(uses, "prefixes")


def windows_of(tallies: Tallies, horizon: Horizon, top: int) -> Records[WindowUse]:
    """Return the window starts that take most; none of Kafka Streams' sessions, or if none are."""
    if tallies.clock is not Clock.WINDOW_START:
        return Records((), "windows")
    spans = tallies.times.spans()
    order = (-spans.data_bytes).argsort(kind="stable")[:top]
    uses = [
        WindowUse(
            int(spans.number[at]) * spans.length_ms,
            spans.length_ms,
            int(spans.num_rows[at]),
            int(spans.data_bytes[at]),
            share_of(int(spans.data_bytes[at]), tallies),
        )
        for at in order
    ]
    return Records([_judged(tallies, horizon, each) for each in uses], "windows")


def _judged(tallies: Tallies, horizon: Horizon, use: WindowUse) -> WindowUse:
    """Return what windows take, with when they end, and whether they are past their time."""
    last_ms = use.start_ms + use.span_ms - 1
    least_ms, most_ms = tallies.least_window_ms, tallies.most_window_ms
    end_ms = None if most_ms is None or least_ms != most_ms else last_ms + most_ms
    unknown = {}
    if end_ms is None:
        told = "is not told" if most_ms is None else "differs"
        unknown["end_ms"] = f"how long the windows are {told}"
    is_past: bool | None = None
    if horizon.kept_from_ms is not None:
        is_past = last_ms < horizon.kept_from_ms
    elif horizon.watermark_ms is None:
        unknown["is_past"] = horizon.unknown["kept_from_ms"]
    elif most_ms is not None and last_ms + most_ms <= horizon.watermark_ms:
        is_past = True
    elif least_ms is not None and use.start_ms + least_ms > horizon.watermark_ms:
        is_past = False
    else:
        unknown["is_past"] = unknown.get("end_ms", "some of them are, some are not")
    return replace(use, end_ms=end_ms, is_past=is_past, unknown=unknown)


def num_windows(tallies: Tallies) -> int | None:
    """Return how many window starts there are, or spans of them; None of a store without."""
    return len(tallies.times.spans()) if tallies.clock is Clock.WINDOW_START else None


def prefix_text(raw: bytes) -> str:
    r"""Return the beginning of a key for people: text if it can be printed, else hex.

    Examples
    --------
    >>> prefix_text(b"user-"), prefix_text("zoë".encode()[:3]), prefix_text(b"\x00\x01")
    ('user-', 'zo', '0x0001')
    """
    text = raw.decode(errors="ignore")  # a character may be cut in two
    is_text = text.isprintable() and len(raw) - len(text.encode()) < 4  # noqa: PLR2004 - UTF-8's
    return text if is_text and (text or not raw) else f"0x{raw.hex()}"


def _readable(value: Any) -> Any:
    return value.raw if isinstance(value, Undecoded) else value


def share_of(size_bytes: int, tallies: Tallies) -> float:
    """Return which share of all keys' and values' bytes some bytes are."""
    return size_bytes / tallies.data_bytes if tallies.data_bytes else 0.0
