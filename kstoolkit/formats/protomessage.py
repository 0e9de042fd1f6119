"""A protobuf message's class, made from its fields where it is used: nothing is generated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import (  # type: ignore[import-untyped] # ships no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


_FIELD = descriptor_pb2.FieldDescriptorProto


def message_class(name: str, fields: Sequence[tuple[str, str]]) -> Any:
    """Return protobuf's class of a proto3 message.

    Parameters
    ----------
    name
        What the message is called.
    fields
        Name and type of each, as a ``.proto`` file has them, such as ``"repeated uint32"``; they
        are numbered from 1.

    Examples
    --------
    >>> point = message_class("Point", [("x", "int64"), ("y", "repeated uint64")])
    >>> point(x=1, y=[2, 3]).SerializeToString().hex(" ")
    '08 01 12 02 02 03'
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, told) in enumerate(fields, start=1):
        repeated, _, kind = told.rpartition(" ")
        message.field.add(
            name=field,
            number=number,
            label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
            type=_FIELD.Type.Value(f"TYPE_{kind.upper()}"),
        )
    pool = (
        descriptor_pool.DescriptorPool()
    )  # of its own: no other message of this name is in the way
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
