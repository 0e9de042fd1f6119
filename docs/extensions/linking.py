"""What docstrings refer to: a page where there is one, else plain text, if it is there at all.

Docstrings speak to whoever reads the source, and name many things that have no page of their own:
a module, a constant, a type of another package. A reference to one of the package's that does not
exist is a broken link, and fails the build.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import kstoolkit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils.nodes import Element
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PUBLIC = {
    f"{value.__module__}.{name}": f"kstoolkit.{name}"
    for name in kstoolkit.__all__
    if hasattr(value := getattr(kstoolkit, name), "__module__")
}
"""Where a public name lives, and what it is called on its page."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Answer for references that Sphinx finds no page for."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}


def resolve(app: Sphinx, env: BuildEnvironment, node: Element, shown: Element) -> Element | None:
    """Return a link, or the text alone where there is no page; None if it is broken."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    if page := documented(target, env):
        domain = env.domains.python_domain
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", page, node, shown)
    is_type_in_a_signature = "refwarn" not in node
    if is_type_in_a_signature or any(found(path) for path in meant(target, node)):
        return shown
    return None


def documented(target: str, env: BuildEnvironment) -> str | None:
    """Return the one documented name that is meant: by where it lives, or by its last words."""
    pages = env.domains.python_domain.objects
    for there, public in PUBLIC.items():
        if target == there or target.startswith(f"{there}."):
            return public + target[len(there) :] if public in pages else None
    if target.startswith("kstoolkit."):
        return None
    ends = {name for name in pages if name.endswith(f".{target}")}
    return ends.pop() if len(ends) == 1 else None


def meant(target: str, node: Element) -> Iterator[str]:
    """Yield what a reference may mean, seen from the module and class that it stands in."""
    yield target
    module, kind = str(node.get("py:module")), node.get("py:class")
    yield f"{module}.{target}"
    if kind:
        yield f"{module}.{kind}.{target}"
        where = getattr(import_module(module), str(kind).partition(".")[0], None)
        yield f"{getattr(where, '__module__', module)}.{target}"


def found(path: str) -> bool:
    """Return whether a path of modules, classes and members leads to something."""
    value: Any = None
    parts = path.split(".")
    for number, part in enumerate(parts, start=1):
        try:
            value = import_module(".".join(parts[:number]))
        except ImportError:
            fields = getattr(value, "__annotations__", {})
            if not hasattr(value, part) and part not in fields:
                return False
            value = getattr(value, part, None)
    return True
