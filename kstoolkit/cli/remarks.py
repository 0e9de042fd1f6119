"""What a store says beside its rows: a line on stderr each, instead of a warning of Python's."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kstoolkit.cli.terminal import note

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def left_out_as_notes() -> Iterator[None]:
    """Let each part of a store that is left out be a line on stderr, as other remarks are."""
    from kstoolkit.stores.rows.readable import LeftOutWarning  # noqa: PLC0415 - with its room

    with warnings.catch_warnings():
        warnings.simplefilter("always", LeftOutWarning)
        warnings.showwarning = lambda told, *_args, **_more: note(str(told))
        yield
