"""The lag of a run on a topic, for its metrics: a silent broker holds up no other figure."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError, KafkaError, OutputError
from kstoolkit.operations.lag import LagWatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.operations.lagrecord import LagOfPartition
    from kstoolkit.pipeline.run import Run


_PATIENCE_SECONDS = 2.0


class RunLag:
    """Returns a run's lag by partition when it is called; nothing if the run reads no topic.

    Rates are measured from one call to another.

    Parameters
    ----------
    run
        The run; it need not have begun.
    options
        Settings of the connection; by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG``
        names.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> RunLag(Run(RunFolder(Path("no/run"))))()
    ()
    """

    def __init__(self, run: Run, options: Mapping[str, str] | None = None) -> None:
        self._run, self._options = run, options
        self._watch: LagWatch | None = None
        self._asking: threading.Thread | None = None
        self._found: tuple[LagOfPartition, ...] = ()
        self._failed: Exception | None = None

    def __call__(self) -> tuple[LagOfPartition, ...]:
        """Return the lag as it is now.

        Raises
        ------
        KafkaError
            If no broker answers at once.
        """
        if not self._is_on_topic():
            return ()
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._look, name="lag", daemon=True)
            self._asking.start()
        self._asking.join(_PATIENCE_SECONDS)
        if self._asking.is_alive():
            message = f"The lag is not known within {_PATIENCE_SECONDS:g} s."
            raise KafkaError(message, hint="Is the broker up?")
        if self._failed is not None:
            raise self._failed
        return self._found

    def _is_on_topic(self) -> bool:
        try:
            settings = self._run.folder.settings()
        except (FormatError, OutputError):  # whoever reads the run's own figures says so
            return False
        return settings is not None and settings.feed == "topic"

    def _look(self) -> None:
        try:
            if self._watch is None:
                self._watch = LagWatch(self._run, options=self._options)
            self._found, self._failed = self._watch.partitions(), None
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for this thread
            self._failed = error
