"""Panels by a line in a notebook, after ``%load_ext kstoolkit``.

IPython has a ``%store`` of its own, which keeps variables, and loads it wherever it starts. That
one goes on as it is: only a line that it could not have taken, a folder's path, opens a store here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from kstoolkit.errors import KstoolkitError
from kstoolkit.widgets.exploring import findings_panel, memory_panel, profile_panel, store_panel

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from kstoolkit.widgets.panel import Panel

_NAMES = ("findings", "memory", "profile", "store")


@magics_class
class PanelMagics(Magics):
    """A panel by a line; its argument is the rest of the line, with or without quotes.

    Magics that the shell has by these names already are kept for :func:`unload`.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        find: Callable[[str], Callable[[str], object] | None] = shell.find_line_magic
        self.before = {name: find(name) for name in _NAMES}

    @line_magic
    def findings(self, line: str) -> Panel:
        """Look at what a run found: ``%findings [OUT]``.

        OUT is the run's folder, by default ``out``, or a variable with a run, findings or a folder.
        """
        return _shown(findings_panel, self._given(line) or "out")

    @line_magic
    def store(self, line: str) -> Panel | None:
        """Look into stores: ``%store PATH``.

        PATH is the folder of a store, or one above several. Where a variable has that name, or the
        line is none with a folder, it is for IPython's own ``%store``, which keeps variables:
        ``%store ./name`` is always the folder.
        """
        kept = self.before["store"]
        if kept is not None and not self._names_folder(line):
            kept(line)
            return None
        return _shown(store_panel, _path(_unquoted(line)))

    @line_magic
    def memory(self, line: str) -> Panel:
        """Look at the memory of a store beside its formula: ``%memory [PATH]``.

        PATH is the folder of a store, or a variable that holds a store, a plan or such a path;
        without one, the formula alone.
        """
        return _shown(memory_panel, self._given(line))

    @line_magic
    def profile(self, line: str) -> Panel:
        """Edit and copy a RocksDB profile: ``%profile [NAME]``.

        NAME is a profile's name, by default ``spark``, or a variable that holds a profile.
        """
        return _shown(profile_panel, self._given(line, is_path=False) or "spark")

    def _given(self, line: str, *, is_path: bool = True) -> Any:
        """Return the variable that a line names, or its text; None if it is empty."""
        text = _unquoted(line)
        if text and text == line.strip() and text in self._shell.user_ns:
            return self._shell.user_ns[text]
        return _path(text) if text and is_path else text or None

    def _names_folder(self, line: str) -> bool:
        """Return whether a line for ``%store`` can't mean IPython's own."""
        text = _unquoted(line)
        if text != line.strip():
            return True
        if not text or text.startswith("-") or text in self._shell.user_ns:
            return False
        return "/" in text.split()[0] or text.startswith((".", "~")) or _path(text).is_dir()


def load(shell: InteractiveShell) -> None:
    """Give a shell the magics."""
    shell.register_magics(PanelMagics(shell))


def unload(shell: InteractiveShell) -> None:
    """Take the magics away, and leave those that were there before."""
    ours = shell.magics_manager.registry.pop(PanelMagics.__name__, None)
    lines = shell.magics_manager.magics["line"]
    for name, before in ours.before.items() if ours is not None else ():
        if getattr(lines.get(name), "__self__", None) is ours:
            del lines[name]
            if before is not None:
                lines[name] = before


def _shown(make: Callable[[Any], Panel], given: object) -> Panel:
    """Return a panel, or end the line with a sentence and without a traceback."""
    try:
        return make(given)
    except KstoolkitError as error:
        raise UsageError(" ".join(filter(None, (error.message, error.hint)))) from None
    except OSError as error:
        raise UsageError(str(error)) from None


def _unquoted(line: str) -> str:
    text = line.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _path(text: str) -> Path:
    return Path(text).expanduser()
