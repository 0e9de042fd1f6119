"""Figures of a run or a replica for Prometheus, over HTTP."""

from __future__ import annotations

import errno
import os
import socket
import threading
from functools import partial
from importlib.util import find_spec
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from kstoolkit.errors import ConfigurationError, EnvironmentFault
from kstoolkit.operations.metricscollector import RunCollector
from kstoolkit.operations.metricslag import RunLag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric as Family

    from kstoolkit.operations.metricscollector import PartitionLag
    from kstoolkit.operations.metricsrecord import Metric
    from kstoolkit.operations.metricsreplica import ReplicaCollector
    from kstoolkit.operations.metricsrestore import RestoreProgress
    from kstoolkit.pipeline.run import Run

    Figures = RunCollector | ReplicaCollector


_LAST_PORT = 65_535
_LOOK_SECONDS = 0.1
_SLOW_CLIENT_SECONDS = 5.0


def serve_replica(
    collector: ReplicaCollector, *, port: int = 0, host: str = "127.0.0.1"
) -> MetricsServer:
    """Return a server of a replica's figures as Prometheus text, until it is closed.

    Parameters
    ----------
    collector
        What is told how the restore goes.
    port, host
        As of :func:`serve_metrics`.

    Raises
    ------
    EnvironmentFault
        If ``prometheus_client`` is not installed.
    ConfigurationError
        If the port is taken, or can't be listened at.
    """
    _need_prometheus()
    return MetricsServer(collector, host, port)


def serve_metrics(
    run: Run,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    lag: Callable[[], Iterable[PartitionLag]] | None = None,
    restarts: Callable[[], int] | None = None,
    options: Mapping[str, str] | None = None,
) -> MetricsServer:
    """Return a server of a run's figures as Prometheus text, until it or the run is closed.

    What lies in the run's folder is served of any run: events, late ones, dead letters by reason,
    findings by rule, files that wait, disk. What only the process that counts knows is served
    there: what batches' time goes into, state and RocksDB by operator, Java's heap. A figure that
    is not known has no value, and its help says why.

    Parameters
    ----------
    run
        What :meth:`~kstoolkit.Pipeline.start` returned, or :func:`~kstoolkit.load_run`. Stopping
        it closes the server.
    port
        Where to listen; 0 is any that is free.
    host
        The address to listen at: by default, nobody but this machine can ask.
    lag
        Returns the lag by partition; by default, that of the run itself if it reads a topic.
    restarts
        Returns how often the run was started again by whoever supervises it.
    options
        Settings of the connection to the topic that the run reads; by default those of the file
        that ``KSTOOLKIT_KAFKA_CONFIG`` names.

    Raises
    ------
    EnvironmentFault
        If ``prometheus_client`` is not installed.
    ConfigurationError
        If the port is taken, or can't be listened at.

    Examples
    --------
    >>> from pathlib import Path
    >>> from urllib.request import urlopen
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> with serve_metrics(Run(RunFolder(Path("no/run")))) as server:
    ...     text = urlopen(server.url).read().decode()
    >>> "kstoolkit_events_total 0.0" in text.splitlines()
    True
    """
    _need_prometheus()
    told = RunLag(run, options) if lag is None else lag
    server = MetricsServer(RunCollector(run, lag=told, restarts=restarts), host, port)
    run.closes.callback(server.close)
    return server


class MetricsServer:
    """Answers whoever asks for figures. Made by :func:`serve_metrics` and :func:`serve_replica`.

    Parameters
    ----------
    collector
        Reads them.
    host, port
        Where to listen.

    Attributes
    ----------
    url
        Where the figures are.
    restores
        A listener for :meth:`kstoolkit.WindowStore.restore` and
        :meth:`kstoolkit.WindowStore.follow`, whose progress is served beside them.
    """

    def __init__(self, collector: Figures, host: str, port: int) -> None:
        self.restores: RestoreProgress = collector.restores
        self._server = _listening(host, port)
        self._server.set_app(_answering(collector))
        self.port: int = self._server.server_port
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"
        self._thread = threading.Thread(
            target=partial(self._server.serve_forever, _LOOK_SECONDS), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering, once who asked before has an answer."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._thread.is_alive() else ", closed"
        return f"MetricsServer({self.url!r}{state})"


class _Server(ThreadingMixIn, WSGIServer):
    """One thread for each who asks, all of them waited for in the end."""

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Listen, without asking the network for this machine's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = map(_as_is, self.server_address[:2])
        self.setup_environ()

    def handle_error(self, *_: Any) -> None:
        """Pass over who went away before the answer."""


class _Handler(WSGIRequestHandler):
    """Answers without a word, and waits for nobody who does not ask."""

    timeout = _SLOW_CLIENT_SECONDS

    def log_message(self, *_: Any) -> None:
        """Say nothing: the terminal is the run's."""


def _as_is(part: Any) -> Any:
    return part


def _listening(host: str, port: int) -> _Server:
    if type(port) is not int or not 0 <= port <= _LAST_PORT:
        message = f"port is {port!r}: there are 0 to {_LAST_PORT}."
        raise ConfigurationError(message, hint="Give 0 for any that is free.")
    try:
        return _Server(host, port)
    except OSError as error:
        why = "it is taken" if error.errno == errno.EADDRINUSE else _reason(error)
        message = f"Metrics can't be served at port {port} of {host!r}: {why}."
        raise ConfigurationError(
            message, hint="Give another port, or 0 for any that is free."
        ) from error


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)


def _answering(collector: Figures) -> Any:
    """Return what answers a request, in the form that was asked for."""
    from prometheus_client import CollectorRegistry, make_wsgi_app  # noqa: PLC0415 - an extra
    from prometheus_client.registry import Collector  # noqa: PLC0415

    class Families(Collector):
        def collect(self) -> Iterator[Family]:
            return map(_family, collector.metrics())

    registry = CollectorRegistry()
    registry.register(Families())
    return make_wsgi_app(registry)


def _family(metric: Metric) -> Family:
    from prometheus_client.core import (  # noqa: PLC0415 - an extra
        CounterMetricFamily,
        GaugeMetricFamily,
    )

    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
    names = [name for name, _ in metric.samples[0][0]] if metric.samples else []
    family: Any = kinds[metric.kind](metric.name, metric.about, labels=names)
    for labels, value in metric.samples:
        family.add_metric([text for _, text in labels], value)
    return family  # type: ignore[no-any-return]


def _need_prometheus() -> None:
    if find_spec("prometheus_client") is None:
        message = "Serving metrics needs prometheus_client, which is not installed."
        raise EnvironmentFault(message, hint='Run: pip install "kstoolkit[operations]"')
