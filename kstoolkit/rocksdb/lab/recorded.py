"""The records of a trial, out of what was seen of its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.lab.results import Moment, Trial

if TYPE_CHECKING:
    from kstoolkit.rocksdb.lab.watching import Watched


_NOTHING_WRITTEN = "nothing was written"
_NOTHING_LIVE = "no row can be read at the end"
_NO_GETS = "nothing was asked for"
_NO_LOOKS = "no such block was looked for in a cache"
_NOTHING_FLUSHED = "nothing was flushed: what was written still fitted the memtables"
_WHY = {
    "write_amplification": _NOTHING_FLUSHED,
    "read_amplification": "no get found anything",
    "space_amplification": _NOTHING_LIVE,
    "peak_space_amplification": _NOTHING_LIVE,
    "blocks_per_get": _NO_GETS,
    "data_block_hit_ratio": _NO_LOOKS,
    "index_block_hit_ratio": _NO_LOOKS,
    "filter_block_hit_ratio": _NO_LOOKS,
    "filter_usefulness": "no filter was asked",
    "put_p50_us": _NOTHING_WRITTEN,
    "put_p99_us": _NOTHING_WRITTEN,
    "get_p50_us": _NO_GETS,
    "get_p99_us": _NO_GETS,
    "peak_resident_bytes": "only Linux tells it, in /proc/self/status",
}
_WHY_NOT_THEN = {
    "write_amplification": _NOTHING_FLUSHED,
    "put_p99_us": "no puts since the moment before",
    "get_p99_us": "no gets since the moment before",
}


def trial_of(profile: str, seen: Watched) -> Trial:
    """Return the record of a trial that came to its end."""
    figures: dict[str, Any] = dict(seen.end)
    live_bytes = figures["live_bytes"]
    for name, above in (("", figures["sst_bytes"]), ("peak_", seen.peak_disk_bytes)):
        known = above and live_bytes
        figures[f"{name}space_amplification"] = above / live_bytes if known else None
    for part in ("memtable_bytes", "block_cache_bytes", "table_readers_bytes"):
        figures[f"peak_{part}"] = max(each[part] for each in seen.moments)
    whys = _WHY | ({"space_amplification": _NOTHING_FLUSHED} if live_bytes else {})
    return Trial(
        profile=profile,
        stopped_by=seen.stopped_by,
        peak_disk_bytes=seen.peak_disk_bytes,
        unknown={name: why for name, why in whys.items() if figures[name] is None},
        **figures,
    )


def moment_of(profile: str, told: dict[str, Any]) -> Moment:
    """Return the record of a trial's moment, as its process told it."""
    levels = {name: tuple(told[name]) for name in ("level_files", "level_bytes")}
    return Moment(
        profile=profile,
        unknown={name: why for name, why in _WHY_NOT_THEN.items() if told[name] is None},
        **told | levels,
    )
