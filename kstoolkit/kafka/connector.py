"""Spark's connector to Kafka: the jars that a Spark without it needs.

The artifact of the very Spark is asked for first. Where the repository lacks it, or a part of it,
the nearest set stands in that the tests of this package run with, and a notice says so.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kstoolkit.errors import EnvironmentFault
from kstoolkit.kafka.artifacts import Artifact
from kstoolkit.kafka.jars import MissingArtifact, cache_folder, fetch, to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_SPARK = "org.apache.spark"
_CONNECTOR, _TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"

NEAREST = (
    Artifact(_SPARK, _CONNECTOR, "4.2.0"),
    # Of the provider of tokens, nothing newer is published; it matters to delegation tokens only.
    Artifact(_SPARK, _TOKENS, "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""What works with Spark 4.3 where its own is not published; connector 4.0 can't stream there."""

_ASK_AGAIN_SECONDS = 7 * 86_400


def connector_jars(
    spark_version: str, *, tell: Callable[[str], object] = to_stderr
) -> tuple[Path, ...]:
    """Return the jars of the connector for a Spark.

    Parameters
    ----------
    spark_version
        Such as ``"4.3.0"``.
    tell
        Called with a line when something is downloaded, and when the nearest set stands in.

    Raises
    ------
    EnvironmentFault
        If they can be had from nowhere.
    """
    mark = cache_folder() / "jars" / f"{_CONNECTOR}-{spark_version}.missing"
    why = "not published in full"
    if not _asked_lately(mark):
        try:
            return fetch([Artifact(_SPARK, _CONNECTOR, spark_version)], tell=tell)
        except MissingArtifact as error:
            why = f"not published in full: {', '.join(error.missing)} is missing"
            with suppress(OSError):  # else it is asked for again the next time
                mark.touch()
        except EnvironmentFault as error:
            why = f"out of reach: {error.message}"
    tell(
        f"The connector to Kafka of Spark {spark_version} is {why}. That of {NEAREST[0].version} "
        "stands in, which is tested with it."
    )
    return fetch(NEAREST, transitive=False, tell=tell)


def _asked_lately(mark: Path) -> bool:
    try:
        return time.time() - mark.stat().st_mtime < _ASK_AGAIN_SECONDS
    except OSError:
        return False
