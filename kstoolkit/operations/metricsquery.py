"""The query of this process that counts into a run's folder, if there is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from kstoolkit.errors import KstoolkitError
from kstoolkit.operations.sessions import session_with_java

if TYPE_CHECKING:
    from kstoolkit.pipeline.runfolder import RunFolder


_RESETS = "spark.sql.streaming.stateStore.rocksdb.resetStatsOnLoad"


def counting_query(folder: RunFolder) -> StreamingQuery | None:
    """Return the query that counts into a folder now: Spark keeps its id in the checkpoint.

    Each session lists its own queries alone, and a thread may have another session than the run;
    what sessions share knows the queries of all of them.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> counting_query(RunFolder(Path("no/run"))) is None
    True
    """
    try:
        told = (folder.checkpoint / "metadata").read_text(encoding="utf-8")
        session: Any = session_with_java()
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - the way into Java
        query_id = jvm.java.util.UUID.fromString(json.loads(told)["id"])
        shared = session._jsparkSession.sharedState()  # noqa: SLF001
        query = shared.activeStreamingQueries().get(query_id)
    except (OSError, ValueError, KstoolkitError, Py4JError):
        return None
    return None if query is None else StreamingQuery(query)


def resets_counts(query: StreamingQuery | None) -> bool:
    """Return whether RocksDB's own counts begin at 0 with each micro-batch, as by default.

    Examples
    --------
    >>> resets_counts(None)
    True
    """
    if query is None:
        return True
    try:
        return session_with_java().conf.get(_RESETS, "true") != "false"
    except (KstoolkitError, Py4JError):
        return True
