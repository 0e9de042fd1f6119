"""Count what users do on Spark, find the abnormal ones, and look into the state that this leaves.

Every public name is imported on first use, so ``import kstoolkit`` costs next to nothing and starts
neither Spark nor a plotting library. The names, and where each lives, stand in ``__init__.pyi``.

Examples
--------
>>> import kstoolkit as kst
>>> kst.Cascade("1 minute", "1 hour", "1 day")
Cascade('1 minute', '1 hour', '1 day')
"""

from __future__ import annotations

from importlib import import_module

import lazy_loader

_attribute, _, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted([*_names, "__version__"])  # noqa: PLE0605 - a list, from the stub


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("kstoolkit")
    return _attribute(name)


def __dir__() -> list[str]:
    return list(__all__)


def load_ipython_extension(shell: object) -> None:
    """Give IPython the magics: what ``%load_ext kstoolkit`` calls."""
    import_module("kstoolkit.magics").load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Take the magics away: what ``%unload_ext kstoolkit`` calls."""
    import_module("kstoolkit.magics").unload(shell)
