"""Data to try things on: the simulated sample that comes along, and a real one to download."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import urllib.request
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, InputError, local_folder
from kstoolkit.events.records import gzip_in, replacing
from kstoolkit.events.simulator import simulate
from kstoolkit.units import Duration, format_bytes, parse_duration

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

_SAMPLE = simulate(event_count=80_000, users=1_200, seed=11)
"""The simulation behind the sample."""

_SAMPLE_FILES = 8
_FILE_WITH_BAD_RECORDS = 4
_OVER_LONG = 2048
_TIME = "<time>"  # stands for the time of the event before it


def _record(**fields: str | None) -> str:
    return json.dumps(fields, separators=(",", ":"))


_BAD_RECORDS = {
    "a line that is no JSON": f"{_TIME} WARN connection reset by peer",
    "a record cut off": _record(time=_TIME, user="maria.kim", action="edit")[:-12],
    "no user": _record(time=_TIME, action="view"),
    "a user that is null": _record(time=_TIME, user=None, action="view"),
    "no action": _record(time=_TIME, user="omar.weber"),
    "no time": _record(user="mei.rossi", action="search"),
    "a time that is null": _record(time=None, user="mei.rossi", action="edit"),
    "a time in words": _record(time="yesterday at noon", user="hana.sato", action="view"),
    "a time that never was": _record(
        time="2026-02-30T25:61:00.000Z", user="paul.li", action="edit"
    ),
    "a time in 2099": _record(time="2099-01-01T00:00:00.000Z", user="ruth.khan", action="share"),
    "an over-long user": _record(time=_TIME, user="x" * _OVER_LONG, action="view"),
    "an over-long action": _record(time=_TIME, user="ivan.costa", action="x" * _OVER_LONG),
}
"""What is wrong with a record, and the record: one line each in one file of the sample."""

_WIKITICKER_FILE = "wikiticker-2015-09-12-sampled.json.gz"
_WIKITICKER_SHA256 = "7257469b475fb6576328acbc911351b21c896322a96925aec3692427437104e1"
_WIKITICKER_URL = (
    "https://raw.githubusercontent.com/apache/druid/master/examples/quickstart/tutorial/"
    + _WIKITICKER_FILE
)

# Spark takes no file whose name begins with an underscore for input.
_LICENCE_FILE = "_wikiticker-licence.txt"
_LICENCE = f"""\
{_WIKITICKER_FILE}: a sample of the edits of Wikipedia on 12 September 2015.

Published by the authors of Apache Druid for their tutorial, in the repository apache/druid.
(c) Wikipedia editors and contributors. Licence of the data: Creative Commons
Attribution-ShareAlike 3.0, https://creativecommons.org/licenses/by-sa/3.0/

sha256 {_WIKITICKER_SHA256}
"""
_MOST_BYTES = 64 << 20  # more than this is not the file that was asked for


def write_sample(folder: str | PathLike[str], *, bad_records: bool = True) -> list[Path]:
    """Write the sample to ``folder``: ``sample/events-*.json.gz``, and ``labels.json``.

    With ``bad_records``, one file also holds a bad record of each kind in :data:`_BAD_RECORDS`.
    Returns the files of events in order of time; the labels last. If the folder can't be
    written, or holds other files of events, it is an OutputError.

    The bytes are those of the sample that comes along, where Python's zlib is the common one; a
    variant such as zlib-ng compresses the same content otherwise.
    """
    written = _SAMPLE.write(local_folder(folder) / "sample", files=_SAMPLE_FILES)
    if bad_records:
        _spoil(written[_FILE_WITH_BAD_RECORDS])
    return written


def _spoil(path: Path) -> None:
    """Spread the bad records evenly over the lines of a file."""
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    distance = len(lines) // (len(_BAD_RECORDS) + 1)
    for number, record in reversed(list(enumerate(_BAD_RECORDS.values(), start=1))):
        before = json.loads(lines[number * distance - 1])
        bad = record.replace(_TIME, before["time"])
        lines.insert(number * distance, f"{bad}\n".encode())
    with replacing(path) as out, gzip_in(out) as file:
        file.writelines(lines)


def fetch_wikiticker(
    folder: str | PathLike[str],
    *,
    url: str = _WIKITICKER_URL,
    sha256: str = _WIKITICKER_SHA256,
    timeout: Duration = "30 seconds",
) -> Path:
    """Return the path of the real sample in ``folder``, downloaded if it is not there yet.

    It holds 39,244 edits of Wikipedia on 12 September 2015, 2.3 MiB of gzip JSON lines: event time
    ``time``, user ``user``, action ``namespace``. A note on its licence is put beside it. Only the
    bytes of ``sha256`` get its name. If they can't be downloaded, or others came, it is an
    InputError; if the folder can't be written, an OutputError.
    """
    target = local_folder(folder) / _WIKITICKER_FILE
    if not (target.is_file() and _sha256(target.read_bytes()) == sha256):
        body = _download(url, target, sha256, parse_duration(timeout))
        if (found := _sha256(body)) != sha256:
            came = f"{format_bytes(len(body))} with the sha256 {found}, where {sha256} was expected"
            message = f"What came from {url} is not the sample: {came}. Nothing of it was kept."
            hint = "Try again, or on another network: a proxy may interfere."
            raise InputError(message, hint=hint)
        with replacing(target) as out:
            out.write(body)
    with replacing(target.with_name(_LICENCE_FILE)) as out:
        out.write(_LICENCE.encode())
    return target


def _download(url: str, target: Path, sha256: str, timeout_ms: int) -> bytes:
    if not url.startswith(("https://", "http://")):
        message = f"{url!r} is no address on the web."
        raise ConfigurationError(message, hint="Give one that begins with https://.")
    try:
        with urllib.request.urlopen(url, timeout=timeout_ms / 1000) as answer:  # noqa: S310 - checked
            body: bytes = answer.read(_MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        there = ""
        if target.is_file():
            found = _sha256(target.read_bytes())
            there = f" The file at {target} is not it: its sha256 is {found}."
        message = f"Can't download {url}: {error}.{there}"
        get = f"Get the file by other means, put it at {target}, and give this command again"
        hint = f"{get}: it checks that the sha256 is {sha256}."
        raise InputError(message, hint=hint) from error
    return body


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
