"""What can be called and asked, as text: names, signatures, methods, fields; never a module's path.

Classes are found from the public names on: what they return, what their properties and fields hold,
and so on. Annotations stand as they are written; to find the classes in them they are evaluated,
with what their module imports for types alone.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
import textwrap
import typing
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["described"]

ASKED_BY_PYTHON = {
    *("__aenter__", "__aexit__", "__call__", "__contains__", "__enter__", "__exit__"),
    *("__getitem__", "__iter__", "__len__", "__next__"),
}
"""Methods that users call by what they write: ``with``, ``in``, ``[]``, ``for``."""


def described(package: ModuleType) -> str:
    """Return the public names of a package, and the classes that they lead to, as text."""
    public = {name: getattr(package, name) for name in package.__all__}
    parts = [f"{name}\n{_of_value(value)}" for name, value in sorted(public.items())]
    told = {value for value in public.values() if inspect.isclass(value)}
    led_to = _reached(package.__name__, public.values()) - told
    parts += ["\n# What these lead to\n"]
    parts += sorted(f"{each.__name__}\n{_of_class(each)}" for each in led_to)
    return "\n".join(parts)


def _of_value(value: Any) -> str:
    if inspect.isclass(value):
        return f"    class{_signature(value)}\n{_of_class(value)}"
    return f"    def{_signature(value)}\n" if callable(value) else f"    {type(value).__name__}\n"


def _of_class(kind: type) -> str:
    lines = [f"is a {each.__name__}" for each in _foreign_bases(kind)]
    lines += [f"field {name}: {told}" for name, told in _fields(kind)]
    lines += sorted(_of_member(name, member) for name, member in _members(kind))
    return "".join(f"    {line}\n" for line in lines)


def _foreign_bases(kind: type) -> list[type]:
    ours = _root(kind)
    common = {object, typing.Generic, typing.Protocol}
    return [each for each in kind.__mro__ if _root(each) != ours and each not in common]


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """Yield what instances hold: fields of dataclasses and named tuples, members, attributes."""
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            if not each.name.startswith("_"):
                yield each.name, f"{_annotation(each.type)}{_default_of(each)}"
    elif issubclass(kind, enum.Enum):
        yield from ((each.name, _text(each.value)) for each in kind)
    elif hasattr(kind, "_fields"):
        yield from ((name, _annotation(kind.__annotations__[name])) for name in kind._fields)
    else:
        yield from sorted(_attributes(kind).items())


def _default_of(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {_text(field.default)}"
    made = field.default_factory is not dataclasses.MISSING
    return " = ..." if made else ""


def _attributes(kind: type) -> dict[str, str]:
    """Return the public attributes that ``__init__`` sets, of a class and those it derives from."""
    found: dict[str, str] = {}
    for each in reversed(_ours(kind)):
        told = inspect.get_annotations(each)
        found |= {name: _annotation(told[name]) for name in told if not name.startswith("_")}
        for node in ast.walk(_tree(each)):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                found |= {name: told for name, told in _set_in(node) if not name.startswith("_")}
    return found


def _set_in(init: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for node in ast.walk(init):
        targets = node.targets if isinstance(node, ast.Assign) else []
        told = "set by __init__"
        if isinstance(node, ast.AnnAssign):
            targets, told = [node.target], ast.unparse(node.annotation)
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self":
                    yield each.attr, told


@cache
def _tree(kind: type) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(kind)))


def _ours(kind: type) -> list[type]:
    return [each for each in kind.__mro__ if _root(each) == _root(kind)]


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield methods, properties and constants, each once, of a class and those it derives from."""
    held = {name for name, _ in _fields(kind)}
    for name in dict.fromkeys(name for each in _ours(kind) for name in vars(each)):
        if (name.startswith("_") and name not in ASKED_BY_PYTHON) or name in held:
            continue
        member = next(vars(each)[name] for each in _ours(kind) if name in vars(each))
        if not inspect.ismemberdescriptor(member):
            yield name, member


def _of_member(name: str, member: Any) -> str:
    match member:
        case property():
            return f"property {name} -> {_returned(member.fget)}"
        case cached_property():
            return f"property {name} -> {_returned(member.func)}"
        case classmethod():
            return f"classmethod {name}{_signature(member.__func__)}"
        case staticmethod():
            return f"staticmethod {name}{_signature(member.__func__)}"
    if callable(member) and not inspect.isclass(member):
        return f"def {name}{_signature(member)}"
    return f"constant {name} = {_text(member)}"


def _returned(function: Any) -> str:
    return _annotation(inspect.signature(function).return_annotation)


def _signature(value: Any) -> str:
    """Return a signature without a path of a module in it."""
    given = inspect.signature(value)
    parameters = [
        each.replace(
            annotation=_shown(each.annotation, _annotation), default=_shown(each.default, _text)
        )
        for each in given.parameters.values()
    ]
    returned = "" if inspect.isclass(value) else f" -> {_annotation(given.return_annotation)}"
    return f"{given.replace(parameters=parameters, return_annotation=given.empty)}{returned}"


class _Shown:
    """What shows itself as a text: ``inspect`` puts it into a signature as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(given: Any, shown: Callable[[Any], str]) -> Any:
    return given if given is inspect.Parameter.empty else _Shown(shown(given))


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "?"
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation)


def _text(value: Any) -> str:
    """Return a default by its bare name, or as it shows itself if that names no place."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return str(value.__name__)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    shown = repr(value)
    return f"<{type(value).__name__}>" if " at 0x" in shown or " object" in shown else shown


def _reached(root: str, values: Iterable[Any]) -> set[type]:
    """Return our classes that values lead to, by what they return and hold."""
    found: set[type] = set()
    waiting = [each for value in values for each in _led_to(value)]
    while waiting:
        kind = waiting.pop()
        if _root(kind) == root and kind not in found and not kind.__name__.startswith("_"):
            found.add(kind)
            waiting += _led_to(kind)
    return found


def _led_to(value: Any) -> Iterator[type]:
    if inspect.isclass(value):
        yield value
        yield from _in_fields(value)
        for _, member in _members(value):
            yield from _in_returned(member)
    elif callable(value):
        yield from _in_returned(value)


def _in_fields(kind: type) -> Iterator[type]:
    for each in _ours(kind):
        names = _namespace(each.__module__)
        for name, hint in inspect.get_annotations(each).items():
            if not name.startswith("_"):
                yield from _classes(_evaluated(hint, names))


def _in_returned(member: Any) -> Iterator[type]:
    """Yield the classes of what a method or property returns, and the protocols that it takes."""
    function = _function(member)
    if function is None:
        return
    names = _namespace(function.__module__)
    for name, hint in inspect.get_annotations(function).items():
        for kind in _classes(_evaluated(hint, names)):
            if name == "return" or getattr(kind, "_is_protocol", False):
                yield kind


def _function(member: Any) -> Any:
    """Return the function that a method or property is made of, if it is one of those."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    function = getattr(member, "__func__", member)
    return inspect.unwrap(function) if inspect.isfunction(function) else None


def _evaluated(hint: Any, names: dict[str, Any]) -> Any:
    return eval(hint, names) if isinstance(hint, str) else hint  # noqa: S307 - our own annotations


def _classes(hint: Any) -> Iterator[type]:
    """Yield the classes that stand anywhere in a type."""
    if isinstance(hint, typing.TypeVar):
        yield from _classes(hint.__bound__)
        for each in hint.__constraints__:
            yield from _classes(each)
    elif isinstance(hint, (list, tuple)):
        for each in hint:
            yield from _classes(each)
    elif typing.get_origin(hint) is not None or isinstance(hint, UnionType):
        yield from _classes(typing.get_origin(hint))
        yield from _classes(typing.get_args(hint))
    elif inspect.isclass(hint):
        yield hint


@cache
def _namespace(module: str) -> dict[str, Any]:
    """Return the names that a module's annotations may use: those imported for types alone, too."""
    found = dict(vars(import_module(module)))
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for each in node.body:
                _add(each, found)
    return found


def _add(node: ast.stmt, names: dict[str, Any]) -> None:
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        for each in node.names:
            names[each.asname or each.name] = _imported(node.module, each.name)
    else:
        exec(compile(ast.Module([node], []), "<for types>", "exec"), names)  # noqa: S102 - as above


def _imported(module: str, name: str) -> Any:
    held = vars(import_module(module))
    if name in held:
        return held[name]
    try:
        return import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return _namespace(module)[name]
