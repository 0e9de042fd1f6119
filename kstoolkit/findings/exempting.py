"""Users marked as known: exemptions that are added to a file of rules, which stays as it was."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.findings.rulefile import load_rules, rules_from_toml
from kstoolkit.findings.rules import Exempt, exempted
from kstoolkit.findings.ruletext import rules_to_toml
from kstoolkit.markup import plain, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kstoolkit.findings.rules import Rule


_LONGEST_NOTE = 400
_ONE_LIST = "Write its rules as [[rule]] tables: then one can be added."


def exempt_user(
    path: str | os.PathLike[str],
    user: str,
    *,
    note: str = "",
    begin_with: Iterable[Rule] = (),
) -> bool:
    r"""Add a rule that exempts a user to a file of rules; return whether it had to be added.

    What is in the file stays as it is, byte for byte. The file is replaced as a whole, so that
    whoever reads it finds all of it or what was there before; a link to it stays a link.

    Parameters
    ----------
    path
        A TOML file, as :func:`~kstoolkit.load_rules` reads it; made if it is not there.
    user
        Any name.
    note
        Why, as a comment above the rule.
    begin_with
        What a file that is not there yet begins with: a run that is given nothing but exemptions
        looks for nothing.

    Raises
    ------
    ConfigurationError
        If the file holds something else than rules; it stays as it was.
    OutputError
        If it can't be written; it stays as it was.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rules.toml"
    >>> exempt_user(path, 'Anna "the bot"', note="nightly backup"), exempt_user(path, "Anna")
    (True, True)
    >>> exempt_user(path, "Anna")
    False
    >>> print(path.read_text())
    # nightly backup
    [[rule]]
    kind = "Exempt"
    users = ["Anna \"the bot\""]
    <BLANKLINE>
    [[rule]]
    kind = "Exempt"
    users = ["Anna"]
    <BLANKLINE>
    """
    place = Path(path).resolve()
    rule = _exemption(user, note)
    try:
        with _alone_in(place.parent):
            if known_users(place, [user]):
                return False
            _replace(place, _added(_before(place, begin_with), rule))
    except OSError as error:
        message = f"The rules in {str(path)!r} can't be written: {error.strerror}."
        raise OutputError(message, hint="Give a file in a folder of your own.") from error
    return True


def known_users(path: str | os.PathLike[str], users: Iterable[str]) -> set[str]:
    """Return which of some users the rules in a file exempt; none if there is no such file.

    Raises
    ------
    ConfigurationError
        If the file can't be read, or holds something else than rules.

    Examples
    --------
    >>> known_users("no/such/rules.toml", ["Anna"])
    set()
    """
    asked = list(users)
    flags = exempted(_rules(Path(path)), pa.array(asked, pa.string())).to_pylist()
    return {user for user, flag in zip(asked, flags, strict=True) if flag}


def _rules(place: Path) -> tuple[Rule, ...]:
    try:
        content = place.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError:
        return load_rules(place)  # which says what is wrong
    return () if _is_bare(content) else load_rules(place)


def _is_bare(content: bytes) -> bool:
    """Return whether there are only comments: no rules yet, and no mistake."""
    lines = (line.strip() for line in content.splitlines())
    return all(not line or line.startswith(b"#") for line in lines)


def _before(place: Path, begin_with: Iterable[Rule]) -> bytes:
    return place.read_bytes() if place.exists() else rules_to_toml(begin_with).encode()


def _exemption(user: str, note: str) -> str:
    comment = f"# {plain(shortened(note, _LONGEST_NOTE))}\n" if note else ""
    return comment + rules_to_toml([Exempt([user])])


def _added(before: bytes, rule: str) -> bytes:
    """Return a file with one rule more, in the line ends that it has, a blank line before it."""
    end = "\r\n" if b"\r\n" in before else "\n"
    blank = "" if not before else end if before.endswith(b"\n") else 2 * end
    return before + (blank + rule.replace("\n", end)).encode()


def _replace(place: Path, content: bytes) -> None:
    """Write a file as a whole, once it is known to be readable; with the mode that it had."""
    hidden = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with hidden.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            hidden.chmod(place.stat().st_mode & 0o7777)
        _check(hidden, place)
        hidden.replace(place)
    finally:
        with suppress(FileNotFoundError):
            hidden.unlink()


def _check(hidden: Path, place: Path) -> None:
    try:
        rules_from_toml(hidden.read_text(encoding="utf-8"), str(place))
    except ConfigurationError as error:
        message = f"No rule can be added to {str(place)!r}: {error.message}"
        raise ConfigurationError(message, hint=_ONE_LIST) from error


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder: of two who add a rule at the same time, none loses the other's."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
