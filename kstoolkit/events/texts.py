"""Users and actions as text, whatever type a file or DataFrame has them in.

Texts come out as an Arrow dictionary: what is asked of a text is asked once for each distinct one,
and counting needs the dictionary anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


Mask = Union["NDArray[np.bool_]", np.bool_]
"""One truth a row, or one for all rows."""


def as_text(values: pa.Array) -> pa.DictionaryArray:
    """Return values as text: numbers and booleans as they are written, the rest as it is.

    What is no text at all (a list, a struct, bytes that are not UTF-8) becomes null, and so a
    dead letter.

    Examples
    --------
    >>> as_text(pa.array([7, None, 7])).to_pylist()
    ['7', None, '7']
    """
    if isinstance(values, pa.ExtensionArray):
        return as_text(values.storage)
    given = pa.types.is_dictionary(values.type)
    try:
        encoded = values if given else values.dictionary_encode()
        texts = _plain(encoded.dictionary)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # of a type that has no text
        return pa.nulls(len(values), pa.string()).dictionary_encode()
    places = encoded.indices.cast(pa.int32())
    if texts.null_count or (given and len(pc.unique(texts)) < len(texts)):
        distinct = texts.dictionary_encode()  # Arrow lets a dictionary name a text twice, or none
        places, texts = distinct.indices.take(places), distinct.dictionary
    return pa.DictionaryArray.from_arrays(places, texts, safe=False)


def _plain(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_fixed_size_binary(kind):
        return _plain(values.cast(pa.binary()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return only_utf8(pc.cast(values, pa.string(), safe=False))
    return only_utf8(values.cast(pa.string()))


def only_utf8(texts: pa.Array) -> pa.Array:
    r"""Return texts with null in place of those that are not UTF-8, which Arrow lets pass.

    Examples
    --------
    >>> texts = pa.array([b"Zo\xc3\xab", b"Zo\xeb"]).view(pa.string())
    >>> only_utf8(texts).to_pylist()
    ['Zoë', None]
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_decoded(each) for each in texts.cast(pa.binary())], pa.string())
    return texts


def _decoded(value: pa.Scalar) -> str | None:
    try:
        return None if value.as_py() is None else value.as_py().decode()
    except UnicodeDecodeError:
        return None


def is_missing(texts: pa.DictionaryArray) -> Mask:
    """Return where there is no text, or an empty one.

    Examples
    --------
    >>> is_missing(as_text(pa.array(["Zoë", None, ""]))).tolist()
    [False, True, True]
    """
    return _rows(texts, _lengths(texts) == 0, if_null=True)


def is_longer(texts: pa.DictionaryArray, limit_bytes: int) -> Mask:
    """Return where a text has more bytes of UTF-8 than allowed.

    Examples
    --------
    >>> is_longer(as_text(pa.array(["Zoë", None, "Zo"])), 3).tolist()
    [True, False, False]
    """
    return _rows(texts, _lengths(texts) > limit_bytes, if_null=False)


def _lengths(texts: pa.DictionaryArray) -> NDArray[np.int64]:
    lengths = pc.binary_length(texts.dictionary).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, dtype=np.int64)


def _rows(texts: pa.DictionaryArray, entries: NDArray[np.bool_], *, if_null: bool) -> Mask:
    """Return the rows of the chosen entries of the dictionary; a single ``False`` if none are."""
    if not entries.any() and not (if_null and texts.null_count):
        return np.bool_(False)  # noqa: FBT003 - the value itself
    codes = pc.fill_null(texts.indices, len(entries))
    places: NDArray[np.int32] = codes.to_numpy(zero_copy_only=False)
    return np.append(entries, if_null)[places]
