"""Files of a checkpoint, written by their description: what the tests read back."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pyarrow as pa

from kstoolkit.formats.spark.checksums import xxhash32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Change = tuple[int, bytes, bytes | None]


def lz4(raw: bytes, block: int = 32 << 10, *, stored: bool = False) -> bytes:
    """Return a stream of LZ4 blocks, as Java writes it."""
    parts = [raw[at : at + block] for at in range(0, len(raw), block)]
    return b"".join(_lz4_block(part, stored=stored) for part in [*parts, b""])


def _lz4_block(part: bytes, *, stored: bool) -> bytes:
    if not part:
        return b"LZ4Block\x15" + bytes(12)
    checksum = xxhash32(np.frombuffer(part, np.uint8)[None, :], 0x9747B28C)[0] & 0x0FFFFFFF
    packed = part if stored else pa.Codec("lz4_raw").compress(part, asbytes=True)
    token = 0x15 if stored else 0x25
    sizes = struct.pack("<III", len(packed), len(part), int(checksum))
    return b"LZ4Block" + bytes([token]) + sizes + packed


def snappy(raw: bytes, block: int = 32 << 10) -> bytes:
    """Return a stream of Snappy blocks, as Java writes it."""
    parts = [
        pa.Codec("snappy").compress(raw[at : at + block], asbytes=True)
        for at in range(0, len(raw), block)
    ]
    blocks = b"".join(struct.pack(">i", len(part)) + part for part in parts)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks


def zstd(raw: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(raw, asbytes=True)
    return packed


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def chunks(text: str) -> bytes:
    parts = [text[at : at + 20_000] for at in range(0, len(text), 20_000)]
    return struct.pack(">i", len(parts)) + b"".join(utf(part) for part in parts)


def changelog(
    version: int, changes: Iterable[Change], lineage: Iterable[tuple[int, str]] = ()
) -> bytes:
    """Return a changelog as it is before it is compressed."""
    listed = [{"version": number, "checkpointUniqueId": uid} for number, uid in lineage]
    head = b"" if version == 1 else utf(f"v{version}")
    head += utf(json.dumps(listed)) if version > 2 else b""
    is_typed = version in {2, 4}
    end = b"\x00" if is_typed else struct.pack(">i", -1)
    return head + b"".join(_change(change, is_typed=is_typed) for change in changes) + end


def _change(change: Change, *, is_typed: bool) -> bytes:
    kind, key, value = change
    behind = struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return bytes([kind][: int(is_typed)]) + struct.pack(">i", len(key)) + key + behind


def schema_v3(families: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a schema file of several column families."""
    listed = list(families)
    return utf("v3") + struct.pack(">i", len(listed)) + b"".join(map(_family, listed))


def _family(family: Mapping[str, Any]) -> bytes:
    key, value = json.dumps(family["key"]), json.dumps(family["value"])
    return b"".join(
        [
            utf(family["name"]),
            struct.pack(">h", 0) + chunks(key),
            struct.pack(">h", family.get("value_id", 0)) + chunks(value),
            chunks(json.dumps(family["encoder"])),
            chunks(json.dumps(family.get("user_key", {}))),
        ]
    )


def snapshot(metadata: Any, members: Mapping[str, bytes] | None = None) -> bytes:
    """Return a snapshot's zip."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name, raw in (members or {}).items():
            archive.writestr(name, raw)
        archive.writestr("metadata", f"v1\n{json.dumps(metadata)}")
    return packed.getvalue()
