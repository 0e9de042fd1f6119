"""A profile as the source of a Kafka Streams ``RocksDBConfigSetter``.

One class configures each store by the first pattern that its name matches::

    class … implements RocksDBConfigSetter
        CACHE0, MEMTABLES0, LIMITER0   for all stores of the process
        setConfig(storeName, …)        if (storeName.matches(pattern)) configure0(options) …
        close(storeName, …)            what belongs to this store alone
        configure0, configure1, …      one a profile: what was set, each line with its reason

What nobody set is left to Kafka Streams. What would do harm there, or RocksJava can't set, is left
out; the comment at the head says so.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionPlace
from kstoolkit.rocksdb.profiles.presets import KAFKA_STREAMS, cautions, left_by, told_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.rocksdb.profiles.options import OptionSet

EVERY_STORE = "*"  # the pattern that every name matches


def pattern_expression(pattern: str) -> str:
    """Return a regular expression, of Python's and Java's kind, for a whole name."""
    anything = {"*": ".*", "?": "."}
    return "".join(anything.get(character) or re.escape(character) for character in pattern)


_LARGEST_INT = 2**31 - 1
_CACHE_OPTIONS = "block_cache_bytes block_cache_shared strict_capacity_limit high_pri_pool_ratio"
_HARMFUL = {
    ("index_type", "hash_search"): "it needs a prefix, without which scans find nothing",
    ("compaction_style", "fifo"): "it deletes the oldest rows, which the changelog topic still has",
}
"""Values that a state store mustn't have, of options that it may have."""

_CHATTY = {"debug", "info", "warn", "header"}
_KEPT_LOGS = {"max_log_file_size": 32 << 20, "keep_log_file_num": 4}
_KEPT_WHY = "a log of this level is to fill no disk: it is kept in files of so many bytes, so many"


def not_in_java(profile: OptionSet) -> dict[str, str]:
    """Return the options that the setter can't or mustn't set, and why."""
    found: dict[str, str] = {}
    told = told_to(KAFKA_STREAMS, profile)
    for name, value in told.items():
        if why_not := OPTIONS[name].not_in_java:
            found[name] = why_not
        elif isinstance(value, str) and (name, value) in _HARMFUL:
            found[name] = _HARMFUL[name, value]
    if told.get("write_buffer_manager_bytes") and not profile.write_buffer_manager_in_cache:
        found["write_buffer_manager_bytes"] = "RocksJava takes this budget from a cache only"
    if (told.get("universal_max_merge_width") or 0) > _LARGEST_INT:
        found["universal_max_merge_width"] = f"RocksJava takes up to {_LARGEST_INT}"
    return found | {name: f"unknown ({why})" for name, why in profile.unknown.items()}


def _to_set(profile: OptionSet) -> dict[str, Any]:
    """Return the options that Kafka Streams would leave otherwise, and may be told."""
    left_out = not_in_java(profile)
    told = told_to(KAFKA_STREAMS, profile).items()
    values = {name: value for name, value in told if name not in left_out}
    if values.get("info_log_level") in _CHATTY:
        values |= {name: value for name, value in _KEPT_LOGS.items() if name not in profile.given}
    return values


class _Line(NamedTuple):
    """A statement of Java, and why it is there."""

    code: str
    why: str


@dataclass(slots=True)
class _Fields:
    """What all stores of the process share, by the Java that makes it."""

    names: dict[str, str]

    def name(self, kind: str, made: str) -> str:
        """Return the name of the field for such an object, which stores with alike ones share."""
        number = sum(name.startswith(kind) for name in self.names.values())
        return self.names.setdefault(made, f"{kind}{number}")

    def __str__(self) -> str:
        lines = []
        for made, name in self.names.items():
            kind = made.removeprefix("new ").partition("(")[0]
            lines.append(f"    private static final {kind} {name} =\n            {made};\n")
        return "".join(lines)


def _lines(profile: OptionSet, fields: _Fields) -> list[_Line]:
    """Return the statements for all that is to be set."""
    values = _to_set(profile)
    found = _cache_lines(profile, values, fields)
    for name, value in values.items():
        if OPTIONS[name].place is not OptionPlace.NOWHERE and not OPTIONS[name].inside:
            why = _KEPT_WHY if name in _KEPT_LOGS.keys() - {*profile.given} else ""
            found.append(_Line(_statement(name, value), profile.why.get(name, why)))
    for prefix, code in _braces(values):
        why = next((why for name, why in profile.why.items() if name.startswith(prefix)), "")
        found.append(_Line(code, why))
    if rate := values.get("rate_limit_bytes_per_second"):
        limiter = fields.name("LIMITER", f"new RateLimiter({_literal(rate)})")
        why = profile.why.get("rate_limit_bytes_per_second", "")
        found.append(_Line(f"options.setRateLimiter({limiter});", why))
    return found


def _cache_lines(profile: OptionSet, values: dict[str, Any], fields: _Fields) -> list[_Line]:
    """Return the statements for the cache of blocks and the budget of memtables."""
    why = profile.why.get("block_cache_bytes", "")
    budget = values.get("write_buffer_manager_bytes")
    if values.get("block_cache_bytes") == 0:
        return [_Line("table.setNoBlockCache(true);", why)]
    if not budget and values.keys().isdisjoint(_CACHE_OPTIONS.split()):
        return []
    left = left_by(KAFKA_STREAMS, profile) | values
    strict, share = _literal(left["strict_capacity_limit"]), left["high_pri_pool_ratio"]
    made = f"new LRUCache({left['block_cache_bytes']}L, -1, {strict}, {share})"
    if not budget and not left["block_cache_shared"]:
        return [
            _Line(f"final Cache cache = owned({made});", why),
            _Line("table.setBlockCache(cache);", why),
        ]
    cache = fields.name("CACHE", made)
    found = [_Line(f"table.setBlockCache({cache});", why)]
    if budget:
        stall = _literal(left["write_buffer_manager_allow_stall"])
        manager = f"new WriteBufferManager({_literal(budget)}, {cache}, {stall})"
        set_to = fields.name("MEMTABLES", manager)
        why = profile.why.get("write_buffer_manager_bytes", "")
        found.append(_Line(f"options.setWriteBufferManager({set_to});", why))
    return found


def _statement(name: str, value: Any) -> str:
    option = OPTIONS[name]
    receiver = "table" if option.place is OptionPlace.TABLE else "options"
    if name == "bloom_bits_per_key":
        bloom = f"owned(new BloomFilter({value}))" if value else "null"
        return f"{receiver}.setFilterPolicy({bloom});"
    setter = option.java or _setter(option.called or name)
    if isinstance(value, tuple):
        levels = ", ".join(option.words[word].in_java for word in value)
        return f"{receiver}.{setter}(List.of({levels}));"
    argument = option.words[value].in_java if option.words else _literal(value)
    return f"{receiver}.{setter}({argument});"


_BRACES = {
    "universal_": ("CompactionOptionsUniversal", "setCompactionOptionsUniversal"),
    "fifo_": ("CompactionOptionsFIFO", "setCompactionOptionsFIFO"),
}


def _braces(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the statement for the options of each style, by what their names begin with."""
    for prefix, (kind, setter) in _BRACES.items():
        calls = "".join(
            f".{_setter(name.removeprefix(prefix))}({_literal(value)})"
            for name, value in values.items()
            if name.startswith(prefix)
        )
        if calls:
            yield prefix, f"options.{setter}(owned(new {kind}()){calls});"


def _setter(name: str) -> str:
    return "set" + "".join(part.capitalize() for part in name.split("_"))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value}L" if isinstance(value, int) and value > _LARGEST_INT else str(value)


_CLASS_NAME = re.compile(r"(?:[a-z_]\w*\.)*[A-Za-z_]\w*", re.ASCII)
_RESERVED = """
_ abstract assert boolean break byte case catch char class const continue default do double else
enum extends false final finally float for goto if implements import instanceof int interface long
native new null package private protected public return short static strictfp super switch
synchronized this throw throws transient true try void volatile while
"""
"""Keywords and literals: The Java Language Specification 21, sections 3.9 and 3.10."""
_NO_TYPES = {"permits", "record", "sealed", "var", "yield"}
"""Names that a type may not have, though packages may (3.9)."""
_HINT = "Give one such as 'com.example.BoundedMemory'."


def _check_class_name(class_name: object) -> None:
    """Check that Java takes a name for a class, and that it hides none that its source uses."""
    parts = class_name.split(".") if isinstance(class_name, str) else [""]
    reserved = not set(_RESERVED.split()).isdisjoint(parts) or parts[-1] in _NO_TYPES
    if reserved or _CLASS_NAME.fullmatch(".".join(parts)) is None:
        message = f"{class_name!r} is no name of a Java class."
        raise ConfigurationError(message, hint=_HINT)
    if parts[-1] in _USED:
        message = f"A class can't be called {class_name!r}: it uses one of this name itself."
        raise ConfigurationError(message, hint=_HINT)


_ROCKSDB_CLASSES = """
BlockBasedTableConfig BloomFilter Cache ChecksumType CompactionOptionsUniversal CompactionPriority
CompactionStyle CompressionType DataBlockIndexType IndexType InfoLogLevel LRUCache Options
RateLimiter RocksDB RocksObject WriteBufferManager
"""
_JAVA_CLASSES = {
    "ArrayList": "java.util.ArrayList",
    "List": "java.util.List",
    "Map": "java.util.Map",
    "RocksDBConfigSetter": "org.apache.kafka.streams.state.RocksDBConfigSetter",
    **{each: f"org.rocksdb.{each}" for each in _ROCKSDB_CLASSES.split()},
}
_USED = {*_JAVA_CLASSES, "Object", "Override", "String"}
_SOURCE = """\
{package}{imports}

/**
{head}
 */
public class {name} implements RocksDBConfigSetter {{
{shared}{owned}
    @Override
    public void setConfig(
            final String storeName, final Options options, final Map<String, Object> configs) {{
{choice}
    }}

    @Override
    public void close(final String storeName, final Options options) {{
{close}    }}
{methods}{keeps}}}
"""
_SHARED = """\

    static {{
        // Kafka Streams makes this class before it loads RocksDB, where its name stands in a file.
        RocksDB.loadLibrary();
    }}

    // For all stores of this process; never closed, since others go on using it.
{fields}"""
_OWNED = "\n    private final List<RocksObject> owned = new ArrayList<>();\n"
_CLOSE = "        owned.forEach(RocksObject::close);\n        owned.clear();\n"
_KEEPS = """
    /** Keeps an object of this store, to be closed with it. */
    private <T extends RocksObject> T owned(final T object) {
        owned.add(object);
        return object;
    }
"""
_METHOD = """
    /** {title} */
    private void configure{number}(final Options options) {{
{statements}
    }}
"""
_TABLE = """\
        // The table's configuration that is there: Kafka Streams refuses another one.
        final BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
"""
_NOTHING = "        // Nothing is set: all stays as Kafka Streams has it."


def java_setter(class_name: str, profiles: Sequence[tuple[str, OptionSet]]) -> str:
    """Return the source of a class that configures each store by the first pattern it matches.

    Stores that match none keep what Kafka Streams sets.
    """
    _check_class_name(class_name)
    package, _, name = class_name.rpartition(".")
    fields = _Fields({})
    methods = "".join(_method(at, profile, fields) for at, (_, profile) in enumerate(profiles))
    owns = "owned(" in methods
    text = {
        "name": name,
        "head": "\n".join(f" * {_comment(line)}".rstrip() for line in _head(profiles)),
        "shared": _SHARED.format(fields=fields) if fields.names else "",
        "owned": _OWNED if owns else "",
        "choice": _choice([pattern for pattern, _ in profiles]),
        "close": _CLOSE if owns else "        // There is nothing of this store alone.\n",
        "methods": methods,
        "keeps": _KEEPS if owns else "",
    }
    source = _SOURCE.format(package="", imports="", **text)
    before = f"package {package};\n\n" if package else ""
    return _SOURCE.format(package=before, imports=_imports(source), **text)


def _head(profiles: Sequence[tuple[str, OptionSet]]) -> list[str]:
    lines = ["Options of RocksDB for the stores of Kafka Streams.", ""]
    for pattern, profile in profiles:
        lines.append(f"Stores {pattern}: {profile.name or 'no name'}. {profile.purpose}".rstrip())
        if _to_set(profile):
            lines += [f"Careful: {caution}" for caution in cautions(profile)]
        for option, why in not_in_java(profile).items():
            lines.append(f"Not set: {option}: {why}.")
    return lines


def _comment(text: str) -> str:
    """Return text that can't end the comment, nor be read as anything but text."""
    return text.replace("*/", "* /").replace("\\", "/").replace("\n", " ").replace("\r", " ")


def _method(number: int, profile: OptionSet, fields: _Fields) -> str:
    lines = _lines(profile, fields)
    statements = _with_reasons(lines) or [_NOTHING]
    if any("table." in each.code for each in lines):
        statements = [_TABLE, *statements, "        options.setTableFormatConfig(table);"]
    return _METHOD.format(
        title=_comment(profile.purpose or profile.name or "Options of a profile."),
        number=number,
        statements="\n".join(each.rstrip("\n") for each in statements),
    )


def _with_reasons(lines: list[_Line]) -> list[str]:
    """Return statements, each reason once before those that it is of."""
    found = []
    for why, together in groupby(lines, key=attrgetter("why")):
        found += [f"        // {_comment(why)}"] if why else []
        found += [f"        {each.code}" for each in together]
    return found


def _choice(patterns: list[str]) -> str:
    lines = []
    for number, pattern in enumerate(patterns):
        call = f"configure{number}(options);"
        if pattern == EVERY_STORE:
            lines.append(f"        {call}")
            break
        expression = json.dumps(pattern_expression(pattern))
        lines.append(f"        if (storeName.matches({expression})) {{")
        lines.append(f"            {call}\n            return;\n        }}")
    return "\n".join(lines)


def _imports(source: str) -> str:
    code = re.sub(r"(?s)/\*\*.*?\*/|//[^\n]*", "", source)
    used = [name for each, name in _JAVA_CLASSES.items() if re.search(rf"\b{each}\b", code)]
    return "\n".join(f"import {each};" for each in used)
