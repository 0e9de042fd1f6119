"""Faults that struck, by the errors in the log; and those that the writer's release is known for.

After most errors RocksDB takes no more writes, and the application may not say so. A fault is told
by the release and the options that it needs: whether it ever struck is not known. Where a fix came
to several branches, the oldest release with it counts, as its tag's HISTORY.md says.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from kstoolkit.errors import naming
from kstoolkit.records import Source
from kstoolkit.rocksdb.advice.advice import WIKI, Rule, Shown, Unjudged, figures_of
from kstoolkit.rocksdb.log.jobs import CORRUPTION, IN_BACKGROUND, IO_ERROR, NO_SPACE, time_told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.advice.advice import Facts

_TOLD = {
    NO_SPACE: (
        "the disk was full, and flushes and compactions failed: writes stop until there is room",
        "make room for the largest compaction at least (universal: twice the store), and reopen it",
    ),
    CORRUPTION: (
        "RocksDB read bytes that it did not write",
        "keep a copy, remove the folder, let it be restored; look at disk, memory, and who writes",
    ),
    IO_ERROR: (
        "the system refused RocksDB a file",
        "see the text: is the folder there, mounted, writable, its disk sound, ulimit wide enough?",
    ),
    IN_BACKGROUND: (
        "a flush or compaction failed, and RocksDB stopped or slowed writes for it",
        "see the text, mend what it names, and open the store anew",
    ),
}


@Rule(
    "errors in the log",
    "RocksDB logged errors",
    option="the store's folder and its disk",
    direction="see the text",
    effect="flushes and compactions go on, and so do writes",
    cost="a restart; if files are lost, a restore from the changelog",
    link=f"{WIKI}/Background-Error-Handling",
)
def errors_in_log(facts: Facts) -> Iterator[Shown]:
    """Judge whether the writer's log holds errors."""
    errors = facts.errors
    if not errors:
        if errors.unknown:
            raise Unjudged(errors.unknown)
        if aside := [each.path.rpartition("/")[2] for each in facts.rotated if each.size_bytes]:
            why = "none since the last opening; {since} reads what was set aside: {names}"
            raise Unjudged(naming(why, names=", ".join(aside)))
        return
    causes = Counter(each.cause for each in errors)
    worst = next((_TOLD[cause] for cause in _TOLD if causes[cause]), ())
    said = dict(zip(("symptom", "direction"), worst, strict=False))
    told: dict[str, Any] = {each.replace(" ", "_"): number for each, number in causes.items()}
    told |= {"first_time": time_told(errors[0]), "last_time": time_told(errors[-1])}
    told |= {"first_text": errors[0].text, "last_text": errors[-1].text}
    yield Shown(figures_of(Source.LOG, **told), said)


class _Fault(NamedTuple):
    """A fault: ``release`` is the first of RocksDB without it; or if ``is_only``, the one it is of.

    ``options`` are what the OPTIONS file has to say: a number is the least, in any section.
    ``family`` is a column family that has to be there.
    """

    what: str
    instead: str
    link: str
    release: tuple[int, ...]
    is_only: bool = False
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    family: str = "default"


_HISTORY = "https://github.com/facebook/rocksdb/blob/main/HISTORY.md"
_PULL = "https://github.com/facebook/rocksdb/pull"
_KAFKA = "https://issues.apache.org/jira/browse"
_BOTH = "Kafka Streams 4.0, Spark 4.0"
_PARALLEL = {"max_background_jobs": 8}  # a quarter of them flush
KNOWN_FAULTS = (
    _Fault(
        "a write to the MANIFEST that fails for a full disk may damage it (#6316)",
        *("6.6.4: Kafka Streams 3.0", f"{_HISTORY}#680-2020-02-24", (6, 6, 4)),
    ),
    _Fault(
        "a flush that is tried again beside others may put updates in a wrong order: Corruption",
        *("7.8.2: Kafka Streams 3.6", f"{_PULL}/10921", (7, 8, 2)),
        options=_PARALLEL | {"max_write_buffer_number": 3},
    ),
    _Fault(
        "an atomic flush may leave out a column family, and without a WAL a crash loses its rows",
        *("8.1.0", f"{_PULL}/11148", (8, 1, 0)),
        options={"atomic_flush": "true"},
    ),
    _Fault(
        "a read that fails at the beginning of a file of level 1 or below may lose rows",
        *(f"8.5.1: {_BOTH}", f"{_HISTORY}#870-09222023", (8, 5, 1)),
    ),
    _Fault(
        "a flush that fails beside others may delete their files: 'No such file', no more writes",
        *(f"8.6.6: {_BOTH}", f"{_PULL}/11865", (8, 6, 6)),
        options=_PARALLEL | {"atomic_flush": "false"},
    ),
    _Fault(
        "writers that were stalled may wait for ever, as no compaction is begun (#10257)",
        *(f"8.7.0: {_BOTH}", f"{_PULL}/11764", (8, 7, 0)),
    ),
    _Fault(
        "Kafka Streams 4.1.0, which has it as 4.0 does, leaks memory at range scans and joins",
        *("Kafka Streams 4.1.1, if this is 4.1.0", f"{_KAFKA}/KAFKA-19748", (9, 7, 3)),
        is_only=True,
    ),
    _Fault(
        "Kafka Streams 4.3.0, which has it as 4.3.1 does, leaks native memory at each opening",
        *("Kafka Streams 4.3.1, if this is 4.3.0", f"{_KAFKA}/KAFKA-20616", (10, 1, 3)),
        is_only=True,
        family="offsets",
    ),
)
"""At most ten; leaks of an engine, which no store names, are told to whoever measures a process."""


@Rule(
    "known fault of the release",
    "RocksDB {rocksdb_version.value}: {fault.what}",
    option="the release",
    direction="at least {fault.instead}",
    effect="the fault is gone; whether it ever struck here is not known",
    cost="an upgrade",
    link=_PULL,
)
def known_faults(facts: Facts) -> Iterator[Shown]:
    """Judge whether the writer's release has faults that are known, by what it set."""
    told = facts.version
    if told is None:
        why = "neither an OPTIONS file nor the log tells the writer's release of RocksDB"
        raise Unjudged(why)
    version = tuple(map(int, re.findall("[0-9]+", told.value)[:3]))
    families = {each.name for each in facts.families}
    for fault in KNOWN_FAULTS:
        set_to = {name: _setting(facts, name, least) for name, least in fault.options.items()}
        is_this = version == fault.release and facts.process is not None
        is_of = is_this if fault.is_only else version < fault.release
        if is_of and None not in set_to.values() and fault.family in families:
            evidence = (told, *figures_of(Source.OPTIONS, **set_to))
            yield Shown(evidence, {"fault": fault, "link": fault.link})


def _setting(facts: Facts, name: str, least: Any) -> Any:
    """Return what an option is set to where that is what is asked for; None where it is not."""
    values = [each.options[name] for each in facts.options if name in each.options]
    if isinstance(least, int):
        return next((n for n in map(int, filter(str.isdigit, values)) if n >= least), None)
    return least if least in values else None
