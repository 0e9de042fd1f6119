"""A Spark session that counts well, starts anywhere, and keeps the terminal quiet.

Spark's Java is started as it serves us best, and forgotten when it died.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakSet

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstoolkit.environment import CALM_NUMPY, check_spark_home, find_java, memory_bytes
from kstoolkit.errors import ConfigurationError, EnvironmentFault
from kstoolkit.pipeline.classarchive import ClassArchive, link_home
from kstoolkit.pipeline.sparkinside import copied, forget_dead_java, start_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.environment import Java

_STATE_STORE = "spark.sql.streaming.stateStore"
_MASTER = re.compile(r"local(\[(\*|\d+)(, *(\*|\d+))?\])?|spark://\S+:\d+|yarn|k8s://\S+")
_GLOB = re.compile(r"([{}\[\]*?\\])")
_MEMORY_SIZE = re.compile(r"\d+[kmgt]b?", re.IGNORECASE)
_LARGEST_DEFAULT_MEMORY_BYTES = 8 << 30
_STARTING = threading.Lock()
_SETTING = threading.Lock()
"""Held while a session is set otherwise: two at once could give it back in the wrong order."""
_OF_RUNS: WeakSet[SparkSession] = WeakSet()
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""What the environment of Python workers has: their columns, and Arrow's, lie in large pages.

Of small ones there are hundreds as many to find, each time a few cells of many are taken.
"""
_OF_WORKERS = ("kstoolkit", "numpy", "pandas", "pyarrow")
_ASKED = """
import sys
print("%d.%d" % sys.version_info[:2])
from importlib.util import find_spec
print(", ".join(name for name in sys.argv[1:] if find_spec(name) is None))
"""


@cache
def _scratch_folder() -> Path:
    """Return this process's own folder for what nobody needs after it."""
    folder = tempfile.mkdtemp(prefix="kstoolkit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _cause_of(error: Exception, log: Path, start: int) -> str:
    """Return the sentence at the bottom of it: of the Java error, or of Java's last words."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else None
    if thrown is not None:
        while thrown.getCause() is not None:
            thrown = thrown.getCause()
        return str(thrown.getMessage() or thrown.toString()).splitlines()[0]
    said = log.read_bytes()[start:].decode(errors="replace").splitlines()
    words = [line.strip() for line in said if line.strip() and not line.startswith(("\tat ", "20"))]
    return " ".join(words[-3:]) or str(error)


@contextmanager
def _environment_of_java(master: str, archive: ClassArchive | None) -> Iterator[None]:
    """Have in the environment what Java, and the Pythons that it starts, are to find there.

    Spark's own workers have OpenBLAS spared already; the Pythons that plan and read a source don't.
    """
    chosen = dict(CALM_NUMPY)
    if master.startswith("local"):
        chosen["SPARK_HOME"] = str(link_home(archive.folder if archive else _scratch_folder()))
    missing = {name: value for name, value in chosen.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


@contextmanager
def _interruptions_held() -> Iterator[None]:
    """Put Ctrl-C off for the second that Java takes to start.

    Java ends with the process that knows it. One that is still being waited for would be known to
    nobody, never find whom to answer, and stay.
    """
    if threading.current_thread() is not threading.main_thread():  # others are not interrupted
        yield
        return
    asked: list[int] = []
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    held = {each: handler for each, handler in before.items() if callable(handler)}
    for each in held:
        signal.signal(each, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        for each, handler in held.items():
            signal.signal(each, handler)
    for number in asked[:1]:
        signal.raise_signal(number)


def spark_session(
    master: str | None = None,
    *,
    app_name: str = "kstoolkit",
    log_path: str | Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session: the active one untouched if there is one, else a new one.

    A new one binds to loopback if it is local, has no web page of its own, tells time in UTC, keeps
    state in RocksDB, and writes what its Java and its Python workers say to a file.

    Parameters
    ----------
    master
        Where to run: ``"local[*]"`` by default, or ``"spark://host:port"``, ``"yarn"``, ``"k8s://…"``.
    app_name
        The name under which Spark lists it.
    log_path
        The file that Spark's log is appended to; the first session of a process decides. By default
        a temporary one that ends with the process: what goes wrong is raised as an error anyway.
    extra
        Spark settings, which win over those chosen here.

    Raises
    ------
    ConfigurationError
        If ``master``, or the size in ``KSTOOLKIT_DRIVER_MEMORY``, is none.
    EnvironmentFault
        If there is no Java, no answer from the master, or Spark does not start.

    Examples
    --------
    >>> spark = spark_session("local[2]")
    >>> spark.range(10).count()
    10
    >>> spark_session() is spark
    True
    """
    with _STARTING:
        forget_dead_java()
        existing = active_session()
        if existing is not None:
            return existing
        master = master or "local[*]"
        _check_master(master)
        settings = _settings(master, extra or {})
        log = _log_file(log_path)
        java = _prepare_environment(master)
        conf = SparkConf().setMaster(master).setAppName(app_name).setAll(list(settings.items()))
        # An archive is of the paths of the jars, which are others in a home that is given.
        is_ours = master.startswith("local") and "SPARK_HOME" not in os.environ
        is_ours &= os.name == "posix"
        return _start(conf, log, ClassArchive.of(java) if is_ours else None)


def spark_path(path: Path, *, to_read: bool = False) -> str:
    r"""Return a path as Spark takes it: of this machine, whatever ``fs.defaultFS`` says.

    What it is given ``to_read`` is taken for a glob, which no path of ours is.

    >>> spark_path(Path("/a b[1]/%")), spark_path(Path("/a b[1]/%"), to_read=True)
    ('file:///a b[1]/%', 'file:///a b\\[1\\]/%')
    """
    told = str(path.absolute())
    return "file://" + (_GLOB.sub(r"\\\1", told) if to_read else told)


def session_of_run(spark: SparkSession) -> SparkSession:
    """Return a session for one run, its own from then on; or, if that can't be had, the same."""
    if (own := copied(spark)) is not None:
        _OF_RUNS.add(own)
    return own or spark


@contextmanager
def set_for_a_while(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Have a session set so, as a query starts in it, say; one that is a run's own stays so."""
    with _SETTING:
        before = {} if spark in _OF_RUNS else {name: spark.conf.get(name, None) for name in conf}
        for name, value in conf.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, told in before.items():
                spark.conf.unset(name) if told is None else spark.conf.set(name, told)


def queries_beside(spark: SparkSession) -> list[StreamingQuery]:
    """Return the streaming queries of a session, and those of runs in the same Spark."""
    sessions = [each for each in _OF_RUNS if each.sparkContext is spark.sparkContext]
    return [query for each in (spark, *sessions) for query in each.streams.active]


def check_workers(context: SparkContext) -> None:
    """Raise if a local Spark's workers run another Python, or one that lacks a package."""
    given, here = context.pythonExec, Path(sys.executable)
    path = Path(shutil.which(given) or given)
    if path.exists() and path.parent == here.parent and path.samefile(here):
        return
    paths = (each.get("PYTHONPATH") for each in (context.environment, os.environ))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        asked = [str(path), "-c", _ASKED, *_OF_WORKERS]
        done = subprocess.run(  # noqa: S603 - what Spark would start
            asked, env=environment, capture_output=True, text=True, check=False
        )
    except OSError as error:
        why = f"which does not start: {error.strerror}"
    else:
        version, lacking = (*done.stdout.splitlines(), "", "")[:2]
        mine = "{}.{}".format(*sys.version_info)
        why = f"which lacks {lacking}" if lacking else ""
        why = f"Python {version}, and this is Python {mine}" if version not in {"", mine} else why
    if why:
        message = f"Spark's workers run {given!r}, {why}."
        hint = f"Before Spark starts, set PYSPARK_PYTHON={sys.executable}"
        raise EnvironmentFault(message, hint=hint)


@contextmanager
def interrupting_only(spark: SparkSession) -> Iterator[None]:
    """Have Ctrl-C end what this thread asked for; pyspark's handler ends the jobs of all runs."""
    context, tag = spark.sparkContext, f"kstoolkit-{uuid4()}"
    handler = signal.getsignal(signal.SIGINT)
    is_sparks = getattr(handler, "__module__", None) == SparkContext.__module__
    is_sparks &= threading.current_thread() is threading.main_thread()
    if is_sparks:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    context.addJobTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        with suppress(Exception):  # its Java may have ended
            context.cancelJobsWithTag(tag)
        raise
    finally:
        with suppress(Exception):
            context.removeJobTag(tag)
        if is_sparks:
            signal.signal(signal.SIGINT, handler)


def streaming_conf() -> dict[str, str]:
    """Return the settings that a stateful query of ours needs, settable on any session as it runs.

    State lives in RocksDB; each batch commits what changed, and snapshots are made in the
    background; the last ten batches can be gone back to.
    """
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return {
        f"{_STATE_STORE}.providerClass": provider,
        f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        # Spark keeps a hundred by default: a hundred times the changes of a batch, on disk.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.session.timeZone": "UTC",
        # Spark's event log tells the options of a topic that is written to: not how it is reached.
        "spark.sql.redaction.options.regex": "(?i)url|sasl|ssl",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def active_session() -> SparkSession | None:
    """Return the session that is active in this thread or, else, in another one, if there is."""
    session = SparkSession.getActiveSession()
    with suppress(PySparkException, AttributeError):  # there is none, or it was stopped
        other = session or SparkSession.active()
        session = session or (other if other.sparkContext.defaultParallelism else None)
    return session


def _check_master(master: str) -> None:
    if not _MASTER.fullmatch(master):
        message = f"{master!r} is no Spark master."
        hint = "Give 'local[*]', 'spark://host:port', 'yarn' or 'k8s://…'."
        raise ConfigurationError(message, hint=hint)
    if master.startswith("spark://"):
        _check_answering(master)


def _check_answering(master: str) -> None:
    """Ask the masters for a connection: Spark itself would try for a minute before it gives up."""
    refusals = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except (OSError, ValueError, OverflowError) as error:
            refusals.append(f"{place}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    message = f"No Spark master answers at {master!r} ({'; '.join(refusals)})."
    raise EnvironmentFault(message, hint="Start the cluster, or mend the address.")


def _settings(master: str, extra: Mapping[str, str]) -> dict[str, str]:
    log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
    options = [f"-Dlog4j2.configurationFile={log_settings}"]
    options += [given] if (given := extra.get("spark.driver.extraJavaOptions")) else []
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": (_scratch_folder() / "warehouse").as_uri(),
        # Snapshots of state, on which a restart's speed rests, are made no more often than this.
        f"{_STATE_STORE}.maintenanceInterval": "30s",
        **streaming_conf(),
        **_driver_memory(),
        **_placement(master),
        **extra,
    }
    return chosen | {"spark.driver.extraJavaOptions": " ".join(options)}


def _placement(master: str) -> dict[str, str]:
    if not _is_here(master):
        return {}
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    # Java does not know TMPDIR, which is where users point when their /tmp is small.
    local = {"spark.local.dir": tempfile.gettempdir()}
    local["spark.python.daemon.module"] = "kstoolkit.pipeline.workers"
    return here | (local if master.startswith("local") else {})


def _is_here(master: str) -> bool:
    return master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))


def _driver_memory() -> dict[str, str]:
    given, total = os.environ.get("KSTOOLKIT_DRIVER_MEMORY"), memory_bytes()
    if given:
        if not _MEMORY_SIZE.fullmatch(given):
            message = f"KSTOOLKIT_DRIVER_MEMORY={given!r} is no size of memory."
            raise ConfigurationError(message, hint="Write it as Spark does: 4g or 600m.")
        return {"spark.driver.memory": given}
    if total is None:
        return {}
    # A quarter, since the Python workers and RocksDB live beside Spark's Java, not in it.
    size = max(1 << 30, min(total // 4, _LARGEST_DEFAULT_MEMORY_BYTES))
    return {"spark.driver.memory": f"{size >> 20}m"}


def _log_file(log_path: str | Path | None) -> Path:
    path = Path(log_path) if log_path is not None else _scratch_folder() / "spark.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        message = f"The log file {str(path)!r} can't be written: {error.strerror}."
        raise ConfigurationError(message, hint="Give another log_path.") from error
    return path


def _prepare_environment(master: str) -> Java:
    """Say to the processes that are about to start which Java and which Python to run."""
    spark_home = check_spark_home()
    if not spark_home.ok:
        message = f"SPARK_HOME is {spark_home.found}: {spark_home.problem}."
        raise EnvironmentFault(message, hint=f"Run: {spark_home.remedy}")
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:  # the nodes may have theirs elsewhere, and the user has said where
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _is_here(master):  # else Spark asks for the host's name, which some laptops don't know
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return java


def _start(conf: SparkConf, log: Path, archive: ClassArchive | None) -> SparkSession:
    start, options = log.stat().st_size, "spark.driver.extraJavaOptions"
    if archive is not None:
        conf.set(options, f"{conf.get(options, '')} {archive.option()}")
    try:
        around = _environment_of_java(str(conf.get("spark.master")), archive)
        with log.open("ab") as stream, around, _interruptions_held():
            gateway = start_java(conf, stream)
        if archive is not None and gateway is not None:
            archive.learn(gateway)
        context = SparkContext.getOrCreate(conf)
        said = {name: os.environ.get(name, value) for name, value in _LARGE_PAGES.items()}
        context.environment = said | context.environment
        return SparkSession(context)
    except (PySparkException, Py4JError, OSError) as error:
        why = _cause_of(error, log, start)
        message = f"Spark did not start on {conf.get('spark.master')!r}: {why}"
        hint = "Run kstoolkit doctor, which says what is missing here."
        raise EnvironmentFault(message, hint=hint) from error
