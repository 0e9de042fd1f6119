"""What a row holds beside key and value, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.stores.rows.valuetext import moment_text, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping


def origin_text(details: Mapping[str, Any]) -> str:
    """Return what belongs behind a row's key: for what, of which side, or from where it is.

    Examples
    --------
    >>> origin_text({"foreign_key": "c0", "instruction": "delete-and-propagate", "version": 1})
    " for 'c0', delete-and-propagate"
    >>> origin_text({"side": "left"}), origin_text({})
    (' left', '')
    >>> origin_text({"topic": "orders", "partition": 0, "offset": 7, "prior": None})
    ' from orders-0 at offset 7'
    """
    if "foreign_key" in details:
        return f" for {value_text(details['foreign_key'])}, {details['instruction']}"
    if "side" in details:
        return f" {details['side']}"
    if "topic" in details:
        return f" from {details['topic']}-{details['partition']} at offset {details['offset']}"
    return ""


def validity_text(details: Mapping[str, Any]) -> str:
    """Return what belongs behind a row's time: until when a version was the valid one.

    Examples
    --------
    >>> validity_text({"valid_to_ms": 60_000}), validity_text({"valid_to_ms": None})
    (' until 1970-01-01 00:01:00.000', ', still valid')
    >>> validity_text({})
    ''
    """
    if "valid_to_ms" not in details:
        return ""
    end = details["valid_to_ms"]
    return ", still valid" if end is None else f" until {moment_text(end)}"
