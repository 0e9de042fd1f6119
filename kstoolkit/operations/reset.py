"""A run or a consumer group, moved to other offsets: planned first, then done safely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.readers import RunReader, reader_of
from kstoolkit.operations.resetgroup import reset_group
from kstoolkit.operations.resetrun import reset_run
from kstoolkit.operations.resettargets import checked_to

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kstoolkit.operations.resetplan import ResetPlan
    from kstoolkit.operations.resettargets import To
    from kstoolkit.pipeline.run import Run


def reset(
    what: Run | str | os.PathLike[str],
    to: To,
    *,
    bootstrap: str | None = None,
    topic: str | None = None,
    dry_run: bool = True,
    options: Mapping[str, str] | None = None,
) -> ResetPlan:
    """Return what moving a run or a consumer group costs, and with ``dry_run=False`` do it.

    A run then begins anew at these offsets: the next one that is started on its folder has a new
    checkpoint, filed under a new epoch. The old one is kept beside, as ``checkpoint.epoch=<n>``,
    and so is all that was counted. State starts empty, and the newest count of a window wins: a
    window that is read again whole is counted right, one that is read in part too low. The plan
    says which these are.

    A consumer group is moved as Kafka's own ``kafka-consumer-groups --reset-offsets`` does.

    Parameters
    ----------
    what
        A run that reads a topic, or its folder; with ``bootstrap``, the name of a group.
    to
        ``"earliest"``, ``"latest"``, a time (an aware datetime or ISO 8601; the first records that
        are no older), or ``{partition: offset}``, where the other partitions stay as they are.
    bootstrap
        Of a group: servers to ask first, as ``"host:port"``, with commas between.
    topic
        Of a group: which topic; by default the only one that it reads.
    dry_run
        Whether to change nothing.
    options
        Settings of the connection; by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG``
        names.

    Raises
    ------
    InputError
        If there is no such run, group or topic.
    ConfigurationError
        If ``to`` makes no sense, or the run reads no topic.
    CheckpointError
        If it is to be done, and the run is counting, or the group has members.
    KafkaError
        If no broker answers.

    Examples
    --------
    >>> reset("billing", to="yesterday", bootstrap="127.0.0.1:1")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: to is 'yesterday'.
    Hint: Give 'earliest', 'latest', a time such as 2026-01-31T08:00Z, or {partition: offset}.
    """
    where = checked_to(to)
    if topic is not None and bootstrap is None:
        message = f"topic is {topic!r}, and the run's folder knows its topic."
        raise ConfigurationError(message, hint="Leave it out, or give bootstrap for a group.")
    reader = reader_of(what, bootstrap=bootstrap, topic=topic, options=options)
    if isinstance(reader, RunReader):
        return reset_run(reader, where, dry_run=dry_run)
    return reset_group(reader, where, dry_run=dry_run)
