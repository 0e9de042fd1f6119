"""Many dictionaries of text into one, and which bucket a user belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_FINAL_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_ALL_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_WORD_BITS = np.uint64(64)


def unify(dictionaries: Sequence[pa.Array]) -> tuple[pa.Array, list[NDArray[np.int32]]]:
    """Return one dictionary of all texts, and for each given one where its entries now stand.

    The first dictionary keeps its places, so codes that point into it stay valid.

    Examples
    --------
    >>> merged, places = unify([pa.array(["a", "b"]), pa.array(["c", "a"])])
    >>> merged.to_pylist(), [place.tolist() for place in places]
    (['a', 'b', 'c'], [[0, 1], [2, 0]])
    """
    encoded = pc.dictionary_encode(pa.concat_arrays(dictionaries))
    places = np.asarray(encoded.indices, dtype=np.int32)
    ends = np.cumsum([len(dictionary) for dictionary in dictionaries])
    return encoded.dictionary, np.split(places, ends[:-1])


def as_dictionary(texts: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the distinct texts, and for each value which one it is.

    There must be no nulls, and a given dictionary must name each text once.

    Examples
    --------
    >>> texts, codes = as_dictionary(pa.array(["x", "y", "x"]))
    >>> texts.to_pylist(), codes.tolist()
    (['x', 'y'], [0, 1, 0])
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks() if texts.num_chunks else pa.array([], texts.type)
    if isinstance(texts, pa.ChunkedArray):  # more than one chunk's offsets can hold
        texts = pa.concat_arrays([chunk.dictionary_encode() for chunk in texts.chunks])
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    codes = np.asarray(texts.indices, dtype=np.int32)
    return texts.dictionary.cast(pa.string()), codes


def prune(dictionary: pa.Array, codes: NDArray[np.int32]) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the dictionary without entries that no code uses, and the codes into it.

    Examples
    --------
    >>> texts, codes = prune(pa.array(["a", "b", "c"]), np.array([2, 0, 2], dtype=np.int32))
    >>> texts.to_pylist(), codes.tolist()
    (['a', 'c'], [1, 0, 1])
    """
    used = np.zeros(len(dictionary), dtype=bool)
    used[codes] = True
    if used.all():
        return dictionary, codes
    places = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return dictionary.filter(pa.array(used)), places[codes]


def buckets_of(users: pa.Array, buckets: int) -> NDArray[np.int32]:
    """Return the bucket of each user: a 64-bit hash of its UTF-8 bytes, modulo ``buckets``.

    The hash takes eight bytes at a time (zeros behind the last), as FNV-1a takes one, with
    MurmurHash3's finaliser. It never changes between versions: it decides whose state a user
    lies in.

    Examples
    --------
    >>> buckets_of(pa.array(["Anna", "Bo", "Čeněk"]), 8).tolist()
    [4, 5, 6]
    """
    offsets, data = _utf8(users)
    words = np.ndarray(max(len(data) - 7, 0), "<u8", data, strides=(1,))  # one at every byte
    at, lengths = offsets[:-1].copy(), np.diff(offsets)
    hashes = _FNV_OFFSET ^ lengths.astype(np.uint64)
    rest = np.flatnonzero(lengths)
    while rest.size:  # one turn for each eight bytes of the longest user, all users at once
        left = np.minimum(offsets[rest + 1] - at[rest], 8).astype(np.uint64)
        word = words[at[rest]] & (_ALL_ONES >> (_WORD_BITS - left * np.uint64(8)))
        hashes[rest] = _mix((hashes[rest] ^ word) * _FNV_PRIME)
        at[rest] += 8
        rest = rest[at[rest] < offsets[rest + 1]]
    return (_mix(hashes * _FINAL_MIX) % np.uint64(buckets)).astype(np.int32)


def _mix(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return hashes ^ (hashes >> _HALF)


def _utf8(texts: pa.Array) -> tuple[NDArray[np.int64], bytes]:
    """Return offsets and bytes of a text array, with eight zero bytes behind them."""
    texts = texts.cast(pa.large_string())
    _, offset_buffer, data_buffer = texts.buffers()
    if offset_buffer is None:
        return np.zeros(1, dtype=np.int64), b""
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    data = data_buffer[first:end].to_pybytes() if data_buffer else b""
    return offsets - first, data + bytes(8)
