"""Spark's Java: started as it serves us best, and forgotten when it died."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator


_LAST_LINES = 3
_LAST_BREATH_SECONDS = 0.5


def start_java(conf: SparkConf, log: BinaryIO) -> None:
    """Start Spark's Java, unless this process has one: it stays when a session stops."""
    if SparkContext._gateway is not None:  # noqa: SLF001 - as pyspark asks itself
        return
    with _unzipped_python(str(conf.get("spark.master"))), _interruptions_held():
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call] # pyspark has no types for it
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001


@cache
def scratch_folder() -> Path:
    """Return this process's own folder for what nobody needs after it."""
    folder = tempfile.mkdtemp(prefix="kstoolkit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def forget_dead_java() -> None:
    """Let a session that lost its Java, as to a lack of memory, be followed by a new one."""
    gateway = SparkContext._gateway  # noqa: SLF001 - as pyspark asks itself
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None or process.poll() is None:
        return
    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        context._jsc = None  # noqa: SLF001 - nothing is left that it could say goodbye to
        with suppress(Exception):
            context.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001


def java_is_gone() -> bool:
    """Return whether the Java that this process started has ended, or is about to.

    To be asked before an error of Java's is read: its text is Java's to tell.
    """
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - as pyspark asks itself
    if process is None:
        return False
    try:
        process.wait(_LAST_BREATH_SECONDS)  # a connection breaks off before the process is gone
    except subprocess.TimeoutExpired:
        return False
    return True


def cause_of(error: Exception, log: Path, start: int) -> str:
    """Return the sentence at the bottom of it: of the Java error, or of Java's last words."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else None
    if thrown is not None:
        while thrown.getCause() is not None:
            thrown = thrown.getCause()
        return str(thrown.getMessage() or thrown.toString()).splitlines()[0]
    said = log.read_bytes()[start:].decode(errors="replace").splitlines()
    words = [line.strip() for line in said if line.strip() and not line.startswith(("\tat ", "20"))]
    return " ".join(words[-_LAST_LINES:]) or str(error)


@contextmanager
def _unzipped_python(master: str) -> Iterator[None]:
    """Have local workers import pyspark from where it is installed, while Java is started.

    Spark puts its home's ``pyspark.zip`` first, out of which each kind of worker would compile all
    modules anew: half a second each, for nine of them. A home without it has the same Java.
    """
    if not master.startswith("local") or "SPARK_HOME" in os.environ:
        yield
        return
    home, installed = scratch_folder() / "spark", Path(pyspark.__file__).parent
    home.mkdir(exist_ok=True)
    for name in ("bin", "jars"):
        if not (home / name).exists():
            (home / name).symlink_to(installed / name, target_is_directory=True)
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


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
