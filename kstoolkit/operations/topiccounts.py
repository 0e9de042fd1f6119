"""A topic that a run writes its counts to, as rows: read into a scratch folder, as replicas do."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kstoolkit.changelog.changelog import MIRROR
from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.kafka.outputs import kafka_changelog
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.rocksdb.faults import StoreClosedError
from kstoolkit.rocksdb.files.shadow import new_scratch_folder
from kstoolkit.stores.rows.counts import changelog_counts
from kstoolkit.stores.rows.readable import HasRows, Readable
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.kafka.outputs import KafkaChangelog
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.rows import RowSource


class CountedTopic(HasRows):
    """A run's latest counts, of windows of one length, as rows: one for each user and window.

    Made by :func:`kstoolkit.open_topic`; ``with`` closes it, and removes what was made.

    Parameters
    ----------
    topic
        Where the counts are.
    window_ms
        How long the windows are.
    counted
        How to count: see :func:`kstoolkit.stores.rows.counts.changelog_counts`.
    scratch
        Where to make the scratch folder; None is where temporary files go.

    Raises
    ------
    ConfigurationError
        If there are no such windows, or it is not said which are meant.
    FormatError
        If a record is none of a run's counts.
    """

    def __init__(
        self,
        topic: KafkaChangelog,
        *,
        window_ms: int | None,
        counted: dict[str, Any],
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        self.name = str(topic.address)
        with ExitStack() as opening:
            place = new_scratch_folder(scratch)
            opening.callback(place.remove)
            mirror = topic.mirrored_in(place.path / MIRROR)
            mirror.refresh()
            self._counts = _counts(mirror, self.name, window_ms, counted)
            self.read_as = self._counts.read_as
            self._close = weakref.finalize(self, opening.pop_all().close)

    @property
    def source(self) -> RowSource:
        """Where the rows lie."""
        if not self._close.alive:
            message = f"What was read of {self.name} is closed."
            raise StoreClosedError(message, hint="Read it again.")
        return self._counts.source

    @property
    def kind(self) -> str:
        """What kind of store it is: one of windows."""
        return str(Kind.WINDOW)

    def close(self) -> None:
        """Remove what was read; a second time does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"CountedTopic({self.name!r})"


def topic_of_run(
    path: str | os.PathLike[str], options: Mapping[str, str] | None = None
) -> KafkaChangelog | None:
    """Return the topic that a run writes its counts to; None if it has none, or is no run.

    Parameters
    ----------
    path
        A folder.
    options
        Settings of the connection; None: as the environment says.

    Examples
    --------
    >>> import tempfile
    >>> topic_of_run(tempfile.mkdtemp()) is None
    True
    """
    settings = RunFolder(Path(path)).settings()
    if settings is None or settings.changelog is None:
        return None
    return kafka_changelog(settings.changelog, options=options)


def counts_of_run(
    topic: KafkaChangelog,
    path: str | os.PathLike[str],
    *,
    window_ms: int | None,
    counted: dict[str, Any],
) -> Readable:
    """Return the latest counts of a run whose changelog is a topic, as rows.

    What the topic has is read into the run's folder, where :attr:`kstoolkit.Run.changelog` has it
    too, so that the next one reads only what is new.

    Parameters
    ----------
    topic
        What :func:`topic_of_run` found.
    path
        The run's folder.
    window_ms, counted
        As of :class:`CountedTopic`.

    Raises
    ------
    ConfigurationError
        If there are no such windows, or it is not said which are meant.
    """
    mirror = topic.mirrored_in(Path(path) / MIRROR)
    mirror.refresh()
    return _counts(mirror, f"{path}, {topic.address}", window_ms, counted)


def _counts(
    mirror: Changelog, name: str, window_ms: int | None, counted: dict[str, Any]
) -> Readable:
    lengths_ms = mirror.window_lengths_ms()
    known = ", ".join(map(format_duration, lengths_ms)) or "none"
    if window_ms is None:
        message = f"{name} has counts of windows of {known}."
        raise ConfigurationError(message, hint="Say of which, by window_size=.")
    if window_ms not in lengths_ms:
        message = f"{name} has no counts of windows of {format_duration(window_ms)}."
        raise ConfigurationError(message, hint=f"It has: {known}.")
    found = changelog_counts(mirror, window=window_ms, **counted)
    source = _Named(f"{name}, {format_duration(window_ms)}", found.source)
    return Readable(source, key_serde=found.key_serde, value_serde=found.value_serde)


@dataclass(frozen=True, slots=True)
class _Named:
    """Rows under the name that people know them by, not that of a scratch folder."""

    name: str
    rows: RowSource

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        yield from self.rows.read(asked)
