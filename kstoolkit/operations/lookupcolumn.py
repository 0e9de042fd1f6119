"""A column of keys looked up as a whole: each different key once, its answer taken to every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.lookupcache import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    Asked = Callable[[Sequence[Hashable]], Mapping[Any, Answer]]


VALUE, FAILURE = "value", "failure"
"""The fields of a column of answers."""

_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow raises of a value that is not of a type."""

_LONGEST_VALUE = 60


def answer_column(
    keys: pa.Array | pa.ChunkedArray, ask: Asked, *, kind: pa.DataType | None, default: Any = None
) -> pa.StructArray:
    """Return a value for each row, and why there is none, if the look-up failed.

    Parameters
    ----------
    keys
        Any flat type, in one piece or several. A null or NaN is nobody's key, and is not asked for.
    ask
        Answers a list of different keys.
    kind
        The type of the values; None to tell it from them.
    default
        What rows without a value get.

    Raises
    ------
    ConfigurationError
        If keys are nested, the default is not of the type, or values have no type in common.

    Examples
    --------
    >>> found = {"ann": Answer("SE"), "bob": Answer(failure="no answer within 5 seconds")}
    >>> ask = lambda keys: {key: found[key] for key in keys}
    >>> column = answer_column(pa.array(["ann", None, "bob", "ann"]), ask, kind=pa.string())
    >>> column.field("value").to_pylist()
    ['SE', None, None, 'SE']
    """
    encoded = _flat(keys).dictionary_encode()
    answers = _answers(encoded.dictionary, ask)
    values, failures = _typed(answers, kind, default)
    # The last of the answers is that of rows without a key.
    rows = pc.fill_null(encoded.indices, len(answers))
    return pa.StructArray.from_arrays(
        [values.take(rows), failures.take(rows)], names=[VALUE, FAILURE]
    )


def as_type(value: Any, kind: pa.DataType, what: str) -> pa.Scalar:
    """Return a value of Python's in a type of Arrow's.

    Raises
    ------
    ConfigurationError
        If it is of another.
    """
    try:
        return pa.scalar(value, kind)
    except _MISFITS as error:
        message = f"{what} is {value!r}, which is no {kind}."
        raise ConfigurationError(message, hint="Give a value of the column's type.") from error


def _flat(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    kind = keys.type
    if isinstance(keys, pa.ChunkedArray):
        return _flat(keys.combine_chunks())
    if pa.types.is_dictionary(kind):
        return _flat(keys.dictionary_decode())
    if pa.types.is_nested(kind):
        message = f"Keys of type {kind} can't be looked up."
        raise ConfigurationError(message, hint="Look up a text, a number, a time or bytes.")
    if pa.types.is_null(kind):
        return keys.cast(pa.string())
    if pa.types.is_floating(kind):  # not equal to itself, NaN would never be found again
        return pc.if_else(pc.is_nan(keys), pa.scalar(None, kind), keys)
    return keys


def _answers(distinct: pa.Array, ask: Asked) -> list[Answer]:
    keys = _python_keys(distinct)
    told = ask([key for key in keys if key is not None])
    broken = Answer(failure="the key is not valid UTF-8")
    return [broken if key is None else told[key] for key in keys]


def _python_keys(distinct: pa.Array) -> list[Hashable]:
    """Return the keys; None for text that is none, which Spark lets pass."""
    try:
        keys: list[Hashable] = distinct.to_pylist()
    except UnicodeDecodeError:
        return [_text(raw) for raw in distinct.cast(pa.large_binary()).to_pylist()]
    return keys


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _typed(
    answers: list[Answer], kind: pa.DataType | None, default: Any
) -> tuple[pa.Array, pa.Array]:
    """Return values and failures, and behind the last of them those of rows without a key."""
    if kind is not None:
        as_type(default, kind, "The default")
    try:
        values = _values(answers, kind, default)
    except _MISFITS as error:
        if kind is None:
            message = f"The values have no type in common: {error}"
            raise ConfigurationError(message, hint="Say which type they are to have.") from error
        answers = [_fitting(answer, kind) for answer in answers]
        values = _values(answers, kind, default)
    failures = [answer.failure for answer in answers]
    return values, pa.array([*failures, None], pa.string())


def _values(answers: list[Answer], kind: pa.DataType | None, default: Any) -> pa.Array:
    found = [default if answer.value is None else answer.value for answer in answers]
    return pa.array([*found, default], kind)


def _fitting(answer: Answer, kind: pa.DataType) -> Answer:
    """Return the answer, or if its value is of another type, that this is why it failed."""
    try:
        pa.scalar(answer.value, kind)
    except _MISFITS:
        value = repr(answer.value)[:_LONGEST_VALUE]
        return Answer(failure=f"the answer {value} is no {kind}")
    return answer
