"""Which fields the keys of Spark's state have, beside windows and times: users, pages, whatever.

A key is a struct. What a person groups by are its columns, and those of structs in it::

    aggregation, deduplication    window · user                 window → windows; user
    session window                user · sessionStartTime       session → windows; user
    join                          field0 · index                field0, which is what it joins by
    transformWithState            user                          user
      a map's                     key.user · userKey.n          user; n
      a timer's, an expiry's      expiryTimestampMs · key.user  user

A field is called by its own name, or by its path (``userKey.user``) where another has that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.spark.rows import RowTimes
from kstoolkit.formats.spark.types import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.spark.rows import Family


Path = tuple[str, ...]

_OF_OPERATORS = {"userKey", "expiryTimestampMs"}
_SESSION_START, _JOIN_INDEX, _WITH_INDEX = "sessionStartTime", "index", "keyWithIndexToValue"


@dataclass(frozen=True, slots=True)
class KeyFields:
    """Fields that rows are summed up by.

    Parameters
    ----------
    paths
        Where the fields of each column family are in its key, by their names.
    families
        The families by name.
    by
        The fields that make up what is called a key: together, if they are several.
    each
        Those that are summed up one by one, too, unless it is what makes up a key.
    """

    paths: Mapping[str, Mapping[str, Path]]
    families: Mapping[str, Family]
    by: tuple[str, ...]
    each: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether keys are one field of text, so that beginnings of it say something."""
        kinds = [
            _kind_at(self.families[family].key, paths[self.by[0]])
            for family, paths in self.paths.items()
            if self.by[0] in paths
        ]
        return len(self.by) == 1 and all(pa.types.is_large_string(kind) for kind in kinds)

    def columns(self, rows: RowColumns) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
        """Return those fields that the keys of some rows have, and which keys could be read.

        The rows are of one family.
        """
        family = self._family(rows)
        paths = self.paths[family.name]
        wanted = {name: paths[name] for name in dict.fromkeys(self.by + self.each) if name in paths}
        if not wanted:
            return {}, np.zeros(len(rows), dtype=np.bool_)
        keys = family.some_of_key(rows.key, [path[0] for path in wanted.values()])
        columns = {name: _at(keys, path) for name, path in wanted.items()}
        return columns, np.asarray(keys.is_valid())

    def _family(self, rows: RowColumns) -> Family:
        named = rows.details.get("family")
        if named is None:
            return next(iter(self.families.values()))
        return self.families[named[0].as_py()]


def key_fields(
    families: Iterable[Family], by: str | Sequence[str] | None = None
) -> KeyFields | None:
    """Return which fields rows are summed up by; None: their keys have no fields to choose.

    Parameters
    ----------
    families
        The column families that are read.
    by
        The field, or several together; None takes all that every family has: of
        ``transformWithState`` the grouping key, of a join what it joins by.

    Raises
    ------
    ConfigurationError
        If there is no such field.

    Examples
    --------
    >>> from kstoolkit.formats.spark.keys import KeyEncoder
    >>> from kstoolkit.formats.spark.rows import Family
    >>> from kstoolkit.formats.spark.types import schema_of
    >>> columns = [{"name": "user", "type": "string"}, {"name": "page", "type": "string"}]
    >>> key = schema_of({"type": "struct", "fields": columns})
    >>> views = Family("default", key, key, KeyEncoder())
    >>> key_fields([views]).by, key_fields([views], by="page").by
    (('user', 'page'), ('page',))
    """
    known = {each.name: each for each in families}
    paths = {name: paths_in(each) for name, each in known.items()}
    if by is not None:
        times = {name: paths_in(each, times=True) for name, each in known.items()}
        return KeyFields(times, known, _chosen(by, times.values()))
    every = tuple(dict.fromkeys(name for each in paths.values() for name in each))
    common = tuple(name for name in every if all(name in each for each in paths.values()))
    if not common:
        return None
    # One field alone is a key already.
    each = every if len(common) > 1 else tuple(name for name in every if name not in common)
    return KeyFields(paths, known, common, each)


def paths_in(family: Family, *, times: bool = False) -> dict[str, Path]:
    """Return where the fields of a family's keys are, by name; no windows, and times if asked."""
    found = RowTimes.of(family)
    hidden = {each.name for each in (found.window,) if each is not None and each.in_key}
    if not times:
        hidden |= {each.name for each in (found.time,) if each is not None and each.in_key}
        hidden |= (
            {_SESSION_START} if found.window is not None and not found.window.in_key else set()
        )
    if family.name.endswith(_WITH_INDEX):
        hidden.add(_JOIN_INDEX)  # which of the rows of a key it is
    leaves = [path for path in _leaves(family.key) if path[0] not in hidden]
    bare = [_unwrapped(family.key, path) for path in leaves]
    last = [path[-1] for path in bare]
    return {
        path[-1] if len(path) == 1 or last.count(path[-1]) == 1 else ".".join(path): leaf
        for path, leaf in zip(bare, leaves, strict=True)
    }


def _chosen(by: str | Sequence[str], paths: Iterable[Mapping[str, Path]]) -> tuple[str, ...]:
    known = list(dict.fromkeys(name for each in paths for name in each))
    listed = [by] if isinstance(by, str) else list(by) if isinstance(by, list | tuple) else []
    wrong = [name for name in listed if not isinstance(name, str) or name not in known]
    if listed and not wrong:
        return tuple(dict.fromkeys(listed))
    message = f"Keys of this state have no field {wrong[0] if wrong else by!r} to sum up by."
    told = f"Give one of {', '.join(known)}." if known else "Leave it out."
    raise ConfigurationError(message, hint=f"{told} Windows are summed up beside keys.")


def _leaves(struct: Struct, path: Path = ()) -> Iterator[Path]:
    """Yield the columns that are no structs, those of structs too."""
    for field in struct.fields:
        here = (*path, field.name)
        if isinstance(field.type, Struct) and field.type.fields:
            yield from _leaves(field.type, here)
        else:
            yield here


def _unwrapped(key: Struct, path: Path) -> Path:
    """Return a path as the query's author knows it: grouping keys are wrapped by the operator."""
    level = key.get(path[0])
    if path[0] == "elementKey" and len(path) > 1 and isinstance(level, Struct):
        return _unwrapped(level, path[1:])
    is_wrapped = path[0] == "key" and len(path) > 1 and _OF_OPERATORS & set(key.names)
    return path[1:] if is_wrapped else path


def _kind_at(key: Struct, path: Path) -> pa.DataType:
    kind: pa.DataType = key.arrow
    for name in path:
        kind = kind.field(name).type
    return kind


def _at(keys: pa.Array, path: Path) -> pa.Array:
    """Return a column of structs, and of structs in them; null where one of these is."""
    for name in path:
        keys = keys.flatten()[keys.type.get_field_index(name)]
    return keys
