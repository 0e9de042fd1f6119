"""When something was logged, in UTC: RocksDB writes its lines in the local time of the writer.

Events carry UTC in ``time_micros`` beside the local time of their line; the difference, to a
quarter of an hour, is the writer's zone. It is learned anew at each event, as clocks change twice
a year.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo

    from kstoolkit.rocksdb.log.lines import LogLine


NO_ZONE = "the log has no event line, which alone tells the writer's zone (in Python: zone=...)"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MICROS = 253_402_300_800_000_000
_MICROS = re.compile(r'"time_micros": ?([0-9]{1,18})')
_EVENT = "EVENT_LOG_v1"
_STEP = timedelta(minutes=15)
_WIDEST = timedelta(hours=26)


def of_micros(micros: int | None) -> datetime | None:
    """Return the moment of microseconds since 1970 UTC; None outside of what dates can say.

    Examples
    --------
    >>> of_micros(1795272222106199).isoformat()
    '2026-11-21T14:43:42.106199+00:00'
    """
    if micros is None or not 0 <= micros < _LAST_MICROS:
        return None
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(slots=True)
class WriterClock:
    """Turns the writer's local times into UTC.

    Parameters
    ----------
    zone
        The writer's time zone, if it is known from elsewhere.
    offset
        By how much its clock is ahead of UTC, as far as learned.

    Examples
    --------
    >>> from kstoolkit.rocksdb.log.lines import LogLine
    >>> clock = WriterClock()
    >>> clock.learn(LogLine('EVENT_LOG_v1 {"time_micros": 3600000000}', datetime(1970, 1, 1, 3)))
    >>> clock.utc(LogLine("", datetime(1970, 1, 1, 4))).hour
    2
    """

    zone: tzinfo | None = None
    offset: timedelta | None = None

    def learn(self, line: LogLine) -> None:
        """Take the zone from a line, if it is an event's."""
        if self.zone is not None or line.written is None or line.in_utc or _EVENT not in line.text:
            return
        match = _MICROS.search(line.text)
        moment = of_micros(int(match[1])) if match else None
        if moment is None:
            return
        ahead = line.written.replace(tzinfo=UTC) - moment
        if abs(ahead) <= _WIDEST:  # else the text is not what it seems
            self.offset = round(ahead / _STEP) * _STEP

    def utc(self, line: LogLine) -> datetime | None:
        """Return when a line was logged; None if it or the zone doesn't tell."""
        if line.written is None:
            return None
        if line.in_utc:
            return line.written.replace(tzinfo=UTC)
        try:
            if self.zone is not None:
                return line.written.replace(tzinfo=self.zone).astimezone(UTC)
            if self.offset is not None:
                return line.written.replace(tzinfo=UTC) - self.offset
        except OverflowError:  # the first day of year 1, east of Greenwich
            return None
        return None
