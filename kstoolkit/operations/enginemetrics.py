"""What Kafka Streams and Spark tell of their RocksDB stores, read where they tell it.

Kafka Streams tells JMX, and ``jmx_prometheus_javaagent`` hands that to Prometheus, each figure
under its own names: ``kafka_streams_stream_state_metrics_bytes_written_rate``, with the labels
``task_id`` and ``rocksdb_state_id`` (of windows ``rocksdb_window_state_id``). Spark tells it in the
progress of a query, one JSON object a micro-batch.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import time
import urllib.request
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import urlsplit

from kstoolkit.errors import EnvironmentFault, InputError
from kstoolkit.operations.sparkmetrics import operators_in_all
from kstoolkit.rocksdb.advice.enginemetrics import EngineMetrics, StoreMetrics
from kstoolkit.units import format_bytes, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MOST_BYTES = 64 << 20
_FORM = "Give what jmx_prometheus_javaagent serves, at http://host:port/metrics, or a file of it."
_GROUP = re.compile(
    r"(stream_state|stream_task|consumer|consumer_coordinator)_metrics_(.+)", re.IGNORECASE
)
_STORE_LABEL = re.compile(r"rocksdb.*[_-]state[_-]id$", re.IGNORECASE)
_MAIN_CONSUMER = re.compile(r"StreamThread-\d+-consumer$")
_HEAP = {  # as the agent's releases call them from 1 on, and before
    form.format(kind): f"jvm-heap-{kind}"
    for form in ("jvm_memory_{}_bytes", "jvm_memory_bytes_{}")
    for kind in ("used", "committed")
}
_OF_PROCESS = (
    *("process_open_fds", "process_max_fds"),
    *("process_resident_memory_bytes", "process_start_time_seconds"),
)


def read_metrics(source: str | Path, *, timeout: str = "10 seconds") -> EngineMetrics:
    """Return what a Kafka Streams process tells Prometheus of its stores, for ``advice``.

    Parameters
    ----------
    source
        Where ``jmx_prometheus_javaagent`` serves it, or a file of what it served.
    timeout
        How long an address is waited for.

    Raises
    ------
    InputError
        If it can't be read, or tells of no RocksDB store.
    EnvironmentFault
        If ``prometheus_client`` is not installed.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> sample = 'kafka_streams_stream_state_metrics_num_live_versions{rocksdb_state_id="a",' + (
    ...     'task_id="0_1",thread_id="t"} 3.0')
    >>> with NamedTemporaryFile("w") as file:
    ...     print(sample, file=file, flush=True)
    ...     [metrics] = read_metrics(file.name)
    >>> metrics, metrics.values
    (StoreMetrics(0_1 a, 1 figure), {'num-live-versions': 3.0})
    """
    need_prometheus("Reading")
    origin, text, at_ms = _text_of(str(source), parse_duration(timeout))
    rows = _stores(_samples(text, origin), at_ms)
    if not rows:
        message = f"{origin} tells of no RocksDB store of Kafka Streams."
        raise InputError(message, hint=f"{_FORM} Its rules must let kafka.streams through.")
    return EngineMetrics(rows, origin)


def need_prometheus(doing: str) -> None:
    """Refuse, as an EnvironmentFault, what can't be done with metrics without the package."""
    if find_spec("prometheus_client") is None:
        message = f"{doing} metrics needs prometheus_client, which is not installed."
        raise EnvironmentFault(message, hint='Run: pip install "kstoolkit[operations]"')


def _text_of(source: str, timeout_ms: int) -> tuple[str, str, int | None]:
    """Return what a source is called, without what may be secret, its text, and when it told it."""
    if "://" not in source:
        return source, *_file(Path(source))
    try:
        parts = urlsplit(source)
        origin = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    except ValueError as error:
        message = "What is given is no address."
        raise InputError(message, hint=_FORM) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        message = f"An address of {parts.scheme!r} is not read."
        raise InputError(message, hint=_FORM)
    if parts.username or parts.password:
        message = f"The address at {origin} has a user's name or a password in it."
        raise InputError(message, hint="Fetch it with curl, and give the file.")
    return origin, _fetched(source, origin, timeout_ms), round(time.time() * 1_000)


def _fetched(url: str, origin: str, timeout_ms: int) -> str:
    request = urllib.request.Request(url, headers={"Accept": "text/plain"})  # noqa: S310 - checked
    opener = urllib.request.build_opener(_NoRedirect)
    until = time.monotonic() + timeout_ms / 1_000
    body = bytearray()
    try:
        with opener.open(request, timeout=timeout_ms / 1_000) as answer:
            while part := answer.read1(1 << 16):
                body += part
                if len(body) > _MOST_BYTES:
                    raise _too_large(origin)
                if time.monotonic() > until:
                    message = "it goes on for too long"
                    raise TimeoutError(message)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        if isinstance(error, HTTPError):
            error.close()
        message = f"The metrics at {origin} can't be read: {why}."
        raise InputError(message, hint=_FORM) from error
    return body.decode(errors="replace")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: neither to a file nor to another host."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> NoReturn:
        del msg  # it may name the other place, and what is secret there
        raise HTTPError(req.full_url, code, f"{code}, it points elsewhere", headers, fp)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _file(path: Path) -> tuple[str, int]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise _too_large(str(path))
        told = path.read_text(encoding="utf-8", errors="replace")
        return told, round(path.stat().st_mtime * 1_000)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        message = f"{str(path)!r} can't be read: {why}."
        raise InputError(message, hint="Give a file, or an address with http://.") from error


def _too_large(origin: str) -> InputError:
    message = f"{origin} tells more than {format_bytes(_MOST_BYTES)}: that is no text of metrics."
    return InputError(message, hint=_FORM)


def _samples(text: str, origin: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - an extra

    try:
        for family in text_string_to_metric_families(text):
            yield from ((each.name, each.labels, each.value) for each in family.samples)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        message = f"{origin} tells no metrics as Prometheus reads them."
        raise InputError(message, hint=_FORM) from error


def _stores(
    samples: Iterable[tuple[str, Mapping[str, str], float]], at_ms: int | None
) -> list[StoreMetrics]:
    stores: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    tasks: dict[str, dict[str, float]] = defaultdict(dict)
    process: dict[str, float] = {}
    for metric, labels, value in samples:
        if not math.isfinite(value):
            continue
        found = _GROUP.search(metric)
        if metric in _OF_PROCESS:
            process[metric.replace("_", "-")] = value
        elif labels.get("area") == "heap" and metric in _HEAP:
            process[_HEAP[metric]] = value
        if found is None:
            continue
        name = found[2].lower().replace("_", "-").removesuffix("-total")
        task = labels.get("task_id")
        store = next((name for of, name in labels.items() if _STORE_LABEL.search(of)), None)
        if task and store:
            stores[task, store][name] = value
        elif task:
            tasks[task][f"task-{name}"] = value
        elif _MAIN_CONSUMER.search(labels.get("client_id", "")):  # of several threads the worst
            process[name] = max(value, process.get(name, value))
    return [
        StoreMetrics("Kafka Streams", *whose, process | tasks[whose[0]] | own, at_ms)
        for whose, own in sorted(stores.items())
    ]


def read_progress(path: str | Path) -> EngineMetrics:
    """Return what the progress of a Spark query tells of its operators' state, for ``advice``.

    What Spark counts anew with each micro-batch is summed over those that the file has.

    Parameters
    ----------
    path
        A file with a ``StreamingQueryProgress`` a line, as JSON: ``query.lastProgress.json``.

    Raises
    ------
    InputError
        If it can't be read, or tells of no state in RocksDB.
    """
    text, at_ms = _file(Path(path))
    lines = enumerate(text.splitlines(), 1)
    told = [_progress(line, number, path) for number, line in lines if line.strip()]
    found = operators_in_all(told)
    rows = [StoreMetrics("Spark", *whose, values, at_ms) for whose, values in found.items()]
    if not any("rocksdbPutCount" in each.values for each in rows):
        message = f"{str(path)!r} tells of no state in RocksDB."
        hint = "Its state store's provider has to be RocksDBStateStoreProvider."
        raise InputError(message, hint=hint)
    return EngineMetrics(rows, str(path))


def _progress(line: str, number: int, path: str | Path) -> dict[str, Any]:
    try:
        told = json.loads(line)
        if isinstance(told["stateOperators"], list):
            return dict(told)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    message = f"Line {number} of {str(path)!r} is no progress of a streaming query."
    raise InputError(message, hint="Write query.lastProgress.json after each batch, one a line.")
