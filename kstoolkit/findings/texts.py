"""Columns of text as whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


def encoded(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """Return the texts that occur in a column without nulls, and which one each row is.

    Examples
    --------
    >>> texts, codes = encoded(pa.chunked_array([["b", "a"], ["b"]]))
    >>> texts.to_pylist(), codes.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = _one_chunk(column.unify_dictionaries())
    codes = whole.indices.to_numpy()
    texts = whole.dictionary.cast(pa.string())
    used = np.zeros(len(texts), bool)
    used[codes] = True
    return texts.filter(pa.array(used)), (np.cumsum(used) - 1)[codes]


def codes_in(column: pa.Array | pa.ChunkedArray, known: pa.Array) -> Integers:
    """Return the place of each row's text among the known ones; -1 where it is none of them.

    Examples
    --------
    >>> codes_in(pa.array(["a", "c", "b"]), pa.array(["a", "b"])).tolist()
    [0, -1, 1]
    """
    texts, codes = encoded(column)
    place = pc.fill_null(pc.index_in(texts, value_set=known), -1)
    return np.asarray(place.to_numpy(), np.int64)[codes]


def places(ascending: Integers, wanted: Integers) -> Integers:
    """Return where each wanted value stands in an ascending column; -1 where it does not.

    Examples
    --------
    >>> places(np.array([2, 4]), np.array([4, 3, 9])).tolist()
    [1, -1, -1]
    """
    if not len(ascending):
        return np.full(len(wanted), -1)
    found = np.searchsorted(ascending, wanted)
    found[found == len(ascending)] = 0
    return np.where(ascending[found] == wanted, found, -1)


def _one_chunk(column: pa.ChunkedArray) -> pa.DictionaryArray:
    # What combine_chunks makes of no chunks, or of many, differs between versions of pyarrow.
    if not column.num_chunks:
        return pa.array([], column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
