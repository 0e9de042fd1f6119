"""Notes each module of kstoolkit that is entered, in every Python process begun with this.

Python imports a module of this name by itself where it stands on its path. A module counts as
entered once one of its functions is called; what an import calls to define things does not count.
"""

from __future__ import annotations

import os
import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

NOTES = os.environ.get("KSTOOLKIT_TEST_WAY")
SEEN = set[str]()


def note(frame: FrameType, event: str, _: Any) -> None:
    name = str(frame.f_globals.get("__name__"))
    if event != "call" or not name.startswith("kstoolkit") or name in SEEN:
        return
    if frame.f_code.co_flags & CO_OPTIMIZED and not is_importing(frame):
        SEEN.add(name)
        with Path(NOTES or os.devnull).open("a") as file:
            file.write(f"{name}\n")


def is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name == "<module>" and name.startswith("kstoolkit."):
            return True
        frame = frame.f_back
    return False


if NOTES:
    sys.setprofile(note)
    threading.setprofile(note)
