"""Counts as DataFrames for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kstoolkit.counters.counters import Counters
    from kstoolkit.windows import Window


def tidy(counters: Counters, window: Window) -> pd.DataFrame:
    """Return counters as a DataFrame for people.

    Examples
    --------
    >>> from kstoolkit.counters.counters import Counters
    >>> from kstoolkit.windows import as_window
    >>> counts = Counters.of(np.array([0]), pa.array(["Anna"]), pa.array(["read"]))
    >>> tidy(counts, as_window("1 minute")).to_dict("records")[0]["window_end"]
    Timestamp('1970-01-01 00:01:00+0000', tz='UTC')
    """
    import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

    batch = counters.to_batch()
    frame = pd.DataFrame(
        {
            "window_start": utc_times(counters.start_ms),
            "window_end": utc_times(counters.start_ms + window.size_ms),
            "user": batch.column("user").cast(pa.string()).to_pandas(),
            "action": batch.column("action").cast(pa.string()).to_pandas(),
            "count": counters.count.astype(np.int64),
        }
    )
    return frame.sort_values(["window_start", "user", "action"], ignore_index=True)


def utc_times(epoch_ms: NDArray[np.int64]) -> pd.DatetimeIndex:
    """Return epoch ms as timestamps of UTC.

    Examples
    --------
    >>> utc_times(np.array([0]))[0]
    Timestamp('1970-01-01 00:00:00+0000', tz='UTC')
    """
    import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

    # In nanoseconds, as is pandas' habit, there would be no year 1 and no year 2300.
    return pd.DatetimeIndex(epoch_ms.astype("datetime64[ms]")).tz_localize("UTC")
