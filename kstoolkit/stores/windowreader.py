"""A replica that is open for reading: who did what how often in which window."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Self

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Records, Viewed, counted
from kstoolkit.stores.moments import moment_ms
from kstoolkit.stores.opening import as_profile, segment_options
from kstoolkit.stores.place import replica_place
from kstoolkit.stores.queries import Queries
from kstoolkit.stores.reading import Reading

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pandas as pd

    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.stores.levels import MemoryLevel
    from kstoolkit.stores.moments import Moment
    from kstoolkit.stores.records import SegmentState, UserCounts
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


_PAGE_USERS = 10_000


class WindowReader(Viewed):
    """What a replica is asked. What changes one is its ``WindowStore``'s.

    Parameters
    ----------
    path
        The replica's folder.
    profile
        How RocksDB is to be set; a name or a profile.
    memory
        Levels that are in memory, by window length.
    """

    def __init__(
        self,
        path: Path,
        profile: Profile | str | None = None,
        memory: Mapping[int, MemoryLevel] | None = None,
    ) -> None:
        self.path = path
        self._memory = dict(memory or {})
        self._options = segment_options(as_profile(profile))
        self._reading = Reading(path, self._options, self._memory)
        self._queries = Queries(self._reading)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, profile: Profile | str | None = None) -> Self:
        """Open a replica that was restored before.

        Windows that its restorer keeps in memory are not in there.

        Raises
        ------
        InputError
            If there is none.
        ConfigurationError
            If ``path`` is no path, or there is no profile of this name.
        """
        return cls(replica_place(path), profile)

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows that it has counts of: ``("1 minute", "1 hour")``."""
        return self._queries.windows

    def get(self, user: str, *, window: Duration | Window, at: Moment) -> UserCounts:
        """Return a user's counts in the window that holds a moment.

        Parameters
        ----------
        user
            Who.
        window
            Which kind: ``"1 hour"``; of a hopping one (``"5 minutes every 1 minute"``) the latest
            that holds the moment.
        at
            When: ISO 8601 text, which is in UTC if it names no zone; epoch ms UTC; or an aware
            datetime: one without a zone is refused, as Python's own is in local time.

        Returns
        -------
        UserCounts
            Without counts, if the user did nothing then.

        Raises
        ------
        ConfigurationError
            If the replica has no such window, ``at`` is no time, or ``user`` no text.
        """
        kind = self._queries.kind(window)
        return self._queries.one(user, kind, kind.start_of(moment_ms(at)))

    def get_many(
        self, users: Iterable[str], *, window: Duration | Window, at: Moment
    ) -> Records[UserCounts]:
        """Return the counts of several users in one window, in the order of the users.

        Parameters
        ----------
        users
            Who, one by one: a text alone is refused, for it is one user.
        window, at
            As in :meth:`get`.

        Raises
        ------
        ConfigurationError
            As :meth:`get` does.
        """
        if isinstance(users, str | bytes):
            message = f"The users are {users!r}, which is one text."
            raise ConfigurationError(message, hint=f"Give a list of them: [{users!r}].")
        kind = self._queries.kind(window)
        found = self._queries.many(list(users), kind, kind.start_of(moment_ms(at)))
        return Records(found, "users' counts")

    def scan(
        self, *, window: Duration | Window, at: Moment, page: int = _PAGE_USERS
    ) -> Iterator[Records[UserCounts]]:
        """Yield the counts of all users in one window, so many at a time, in no order to rely on.

        A page is of one moment; what comes in meanwhile may be in the next one.

        Parameters
        ----------
        window, at
            As in :meth:`get`.
        page
            How many users to yield at once, at most.
        """
        kind = self._queries.kind(window)
        if page < 1:
            message = f"A page of {page} users makes no sense."
            raise ConfigurationError(message, hint="Give 1 or more.")
        return self._queries.pages(kind, kind.start_of(moment_ms(at)), page)

    def history(
        self, user: str, *, window: Duration | Window, since: Moment | None = None
    ) -> Records[UserCounts]:
        """Return a user's counts in all windows in which there are any, the earliest first.

        Parameters
        ----------
        user, window
            As in :meth:`get`.
        since
            From the window on that holds this moment; by default from the beginning.
        """
        kind = self._queries.kind(window)
        since_ms = None if since is None else kind.start_of(moment_ms(since))
        return Records(list(self._queries.history(user, kind, since_ms)), "windows")

    def segments(self) -> Records[SegmentState]:
        """Return the segments, by window and time."""
        return Records(list(self._queries.segments()), "segments")

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a segment."""
        return self.segments().to_pandas()

    def close(self) -> None:
        """Close it; it can't be asked any more."""
        self._reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        segments = sum(len(self._reading.starts_ms(length)) for length in self._reading.levels)
        windows = ", ".join(self.windows) or "no windows"
        told = f"{str(self.path)!r}: {windows}; {counted(segments, 'segments')}"
        return f"{type(self).__name__}({told})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.segments()._repr_html_()}"
