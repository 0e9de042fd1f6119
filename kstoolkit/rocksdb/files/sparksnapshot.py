"""What tells an unpacked snapshot of Spark's state from other stores, and where its rows lie.

A snapshot ``<version>.zip`` in a checkpoint holds all of a store but its SST files. Those lie in
the folder ``SSTs`` beside it, shared by all versions, under names of their own; the file
``metadata`` in the snapshot says which is which: a line ``v1``, then JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


_HEAD = b"v1\n"
_LOCAL = re.compile(r"\d+\.sst")
_SHARED = re.compile(r"[\w.-]+\.sst")


def shared_names(folder: Path) -> dict[str, str]:
    r"""Return the name under which Spark keeps each SST file of an unpacked snapshot.

    Nothing if the folder is none, or its metadata can't be made out.

    Raises
    ------
    OSError
        If the metadata can't be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> files = [{"localFileName": "000009.sst", "dfsSstFileName": "000009-a1.sst"}]
    >>> told = json.dumps({"sstFiles": files})
    >>> _ = (folder / "metadata").write_text(f"v1\n{told}")
    >>> shared_names(folder)
    {'000009.sst': '000009-a1.sst'}
    """
    try:
        content = (folder / "metadata").read_bytes()
    except FileNotFoundError:
        return {}
    if not content.startswith(_HEAD):
        return {}
    try:
        files = json.loads(content[len(_HEAD) :])["sstFiles"]
        pairs = [(each["localFileName"], each["dfsSstFileName"]) for each in files]
        return {a: b for a, b in pairs if _LOCAL.fullmatch(a) and _SHARED.fullmatch(b)}
    except (ValueError, LookupError, TypeError):
        return {}
