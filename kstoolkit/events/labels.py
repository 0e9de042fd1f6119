"""Who is abnormal in simulated events, how, when, and by how much: the answers to the exercise."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.events.abnormal import NO_ACTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.events.scenario import Part


LABELS_SCHEMA = pa.schema(
    {
        "user": pa.string(),
        "kind": pa.string(),
        "since": pa.timestamp("ms", tz="UTC"),
        "until": pa.timestamp("ms", tz="UTC"),
        "action": pa.string(),
        "extra_events": pa.int64(),
    }
)


def label_table(parts: Sequence[Part], names: pa.Array, actions: Sequence[str]) -> pa.Table:
    """Return a label for each abnormal user, kind by kind and name by name.

    Parameters
    ----------
    parts
        What is abnormal, in numbers.
    names, actions
        What users and actions are called.
    """
    tables = [_labels(part, names, actions) for part in parts]
    labels = pa.concat_tables([LABELS_SCHEMA.empty_table(), *tables])
    return labels.sort_by([("kind", "ascending"), ("user", "ascending")])


def _labels(part: Part, names: pa.Array, actions: Sequence[str]) -> pa.Table:
    trouble = part.trouble
    action = pa.array(trouble.action, mask=trouble.action == NO_ACTION)
    columns = [
        names.take(pa.array(part.users)),
        pa.array(np.full(len(part.users), part.kind)),
        pa.array(trouble.since_ms).cast(LABELS_SCHEMA.field("since").type),
        pa.array(trouble.until_ms).cast(LABELS_SCHEMA.field("until").type),
        pa.array(actions, pa.string()).take(action),
        pa.array(trouble.extra_events),
    ]
    return pa.Table.from_arrays(columns, schema=LABELS_SCHEMA)


def label_lines(labels: pa.Table) -> Iterator[bytes]:
    """Yield labels as JSON lines, with times in ISO 8601.

    Examples
    --------
    >>> list(label_lines(LABELS_SCHEMA.empty_table()))
    []
    """
    for label in labels.to_pylist():
        text = {name: _iso(value) for name, value in label.items()}
        yield json.dumps(text, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _iso(value: datetime | str | int | None) -> str | int | None:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    return value
