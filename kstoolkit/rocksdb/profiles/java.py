"""A profile as the source of a Kafka Streams ``RocksDBConfigSetter``.

One class configures each store by the first pattern that its name matches::

    class … implements RocksDBConfigSetter
        CACHE0, MEMTABLES0          for all stores of the process, if profiles share them
        setConfig(storeName, …)     if (storeName.matches(pattern)) configure0(options) …
        close(storeName, …)         what belongs to this store alone
        configure0, configure1, …   one a profile: what Kafka Streams and RocksDB would leave
                                    otherwise

What Kafka Streams sets itself, or RocksJava can't, is left out; the comment at the head says so.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionPlace, defaults_beside
from kstoolkit.rocksdb.profiles.presets import kafka_streams_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.profiles.options import OptionSet


EVERY_STORE = "*"
"""The pattern that every name matches."""


def pattern_expression(pattern: str) -> str:
    """Return a regular expression, of Python's and Java's kind, for a whole name."""
    anything = {"*": ".*", "?": "."}
    return "".join(anything.get(character) or re.escape(character) for character in pattern)


_CACHE_OPTIONS = "block_cache_bytes block_cache_shared strict_capacity_limit high_pri_pool_ratio"
_LARGEST_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _CacheObjects:
    """The cache and the write-buffer manager of a profile, as expressions of Java.

    ``shared``: all stores of the process have the same. ``cache`` None: Kafka Streams' own, or
    none. ``manager``: its arguments but for the cache.
    """

    shared: bool
    cache: str | None
    manager: tuple[str, str] | None


def _cache_objects(profile: OptionSet) -> _CacheObjects:
    own, manager, cache = _left(profile), None, None
    differs = any(getattr(profile, name) != own[name] for name in _CACHE_OPTIONS.split())
    if profile.write_buffer_manager_bytes and profile.write_buffer_manager_in_cache:
        stall = _literal(bool(profile.write_buffer_manager_allow_stall))
        manager = _literal(profile.write_buffer_manager_bytes), stall
    if profile.block_cache_bytes and (manager or differs):
        strict, share = bool(profile.strict_capacity_limit), profile.high_pri_pool_ratio or 0.0
        arguments = f"{profile.block_cache_bytes}L, -1, {_literal(strict)}, {share}"
        cache = f"new LRUCache({arguments})"
    return _CacheObjects(bool(profile.block_cache_shared), cache, manager)


def _statements(profile: OptionSet) -> list[str]:
    """Return the statements for all options but the cache and the write-buffer manager."""
    values = _to_set(profile)
    plain = [
        _statement(name, value)
        for name, value in values.items()
        if OPTIONS[name].place is not OptionPlace.NOWHERE and not OPTIONS[name].inside
    ]
    return plain + _of_objects(profile, values)


def not_in_java(profile: OptionSet) -> dict[str, str]:
    """Return the options that the setter can't or mustn't set, and why."""
    own = _left(profile)
    found = {
        name: option.not_in_java
        for name, option in OPTIONS.items()
        if option.not_in_java and getattr(profile, name) not in {None, own[name]}
    }
    if profile.write_buffer_manager_bytes and not profile.write_buffer_manager_in_cache:
        found["write_buffer_manager_bytes"] = "RocksJava takes this budget from a cache only"
    width = profile.universal_max_merge_width
    if width is not None and _LARGEST_INT < width != own["universal_max_merge_width"]:
        found["universal_max_merge_width"] = f"RocksJava takes up to {_LARGEST_INT}"
    return found | {name: f"unknown ({why})" for name, why in profile.unknown.items()}


def _left(profile: OptionSet) -> dict[str, Any]:
    """Return what Kafka Streams and RocksDB set where nobody configures anything."""
    return defaults_beside(profile) | kafka_streams_options()


def _to_set(profile: OptionSet) -> dict[str, Any]:
    """Return the options that Kafka Streams and RocksDB would leave otherwise."""
    own = _left(profile)
    # How many jobs Kafka Streams asks for differs from machine to machine.
    own["max_background_jobs"] = None
    left_out = not_in_java(profile)
    return {
        name: value
        for name, value in profile.options().items()
        if value is not None and value != own[name] and name not in left_out
    }


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


def _of_objects(profile: OptionSet, values: dict[str, Any]) -> list[str]:
    found = []
    if profile.block_cache_bytes == 0:
        found.append("table.setNoBlockCache(true);")
    for prefix, kind, setter in (
        ("universal_", "CompactionOptionsUniversal", "setCompactionOptionsUniversal"),
        ("fifo_", "CompactionOptionsFIFO", "setCompactionOptionsFIFO"),
    ):
        calls = "".join(
            f".{_setter(name.removeprefix(prefix))}({_literal(value)})"
            for name, value in values.items()
            if name.startswith(prefix)
        )
        if calls:
            found.append(f"options.{setter}(owned(new {kind}()){calls});")
    if "rate_limit_bytes_per_second" in values:
        rate = _literal(values["rate_limit_bytes_per_second"])
        found.append(f"options.setRateLimiter(owned(new RateLimiter({rate})));")
    if values.get("statistics"):
        found.append("options.setStatistics(owned(new Statistics()));")
    return found


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


def _check_class_name(class_name: str) -> None:
    """Check that Java takes a name for a class, and that it hides none that its source uses."""
    if not _is_name(class_name):
        message = f"{class_name!r} is no name of a Java class."
        raise ConfigurationError(message, hint=_HINT)
    if class_name.rpartition(".")[2] in _USED:
        message = f"A class can't be called {class_name!r}: it uses one of this name itself."
        raise ConfigurationError(message, hint=_HINT)


def _is_name(text: object) -> bool:
    if not isinstance(text, str):
        return False
    parts = text.split(".")
    reserved = not set(_RESERVED.split()).isdisjoint(parts) or parts[-1] in _NO_TYPES
    return _CLASS_NAME.fullmatch(text) is not None and not reserved


_ROCKSDB_CLASSES = """
BlockBasedTableConfig BloomFilter Cache ChecksumType CompactionOptionsFIFO
CompactionOptionsUniversal CompactionPriority CompactionStyle CompressionType DataBlockIndexType
IndexType InfoLogLevel LRUCache Options RateLimiter RocksObject Statistics WriteBufferManager
"""
_USED = {*_ROCKSDB_CLASSES.split(), "ArrayList", "List", "Map", "RocksDBConfigSetter"}
_USED |= {"Object", "Override", "String"}
_SOURCE = """\
{package}{imports}

/**
{head}
 */
public class {name} implements RocksDBConfigSetter {{

{shared}    private final List<RocksObject> owned = new ArrayList<>();

    @Override
    public void setConfig(
            final String storeName, final Options options, final Map<String, Object> configs) {{
{choice}
    }}

    @Override
    public void close(final String storeName, final Options options) {{
        owned.forEach(RocksObject::close);
        owned.clear();
    }}
{methods}
    /** Keeps an object of this store, to be closed with it. */
    private <T extends RocksObject> T owned(final T object) {{
        owned.add(object);
        return object;
    }}
}}
"""
_PREFIX_CAUTION = (
    "Careful: with a prefix, RocksDB finds nothing from a key on whose prefix is absent; Kafka"
    " Streams can't ask otherwise, so this is for stores that are asked for single keys alone."
)
_METHOD = """
    /** {title} */
    private void configure{number}(final Options options) {{
        // The table's configuration that is there: Kafka Streams refuses another one.
        final BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
{statements}
        options.setTableFormatConfig(table);
    }}
"""
_SHARED = "    // One for all stores of this process; never closed, since others go on using it.\n"


def java_setter(class_name: str, profiles: Sequence[tuple[str, OptionSet]]) -> str:
    """Return the source of a class that configures each store by the first pattern it matches.

    Stores that match none keep what Kafka Streams sets.
    """
    _check_class_name(class_name)
    package, _, name = class_name.rpartition(".")
    shared = _shared(profiles)
    methods = "".join(_method(at, profile, shared) for at, (_, profile) in enumerate(profiles))
    fields = _fields(shared)
    return _SOURCE.format(
        package=f"package {package};\n\n" if package else "",
        imports=_imports(methods + fields),
        head="\n".join(f" * {_comment(line)}".rstrip() for line in _head(profiles)),
        name=name,
        shared=f"{_SHARED}{fields}\n" if fields else "",
        choice=_choice([pattern for pattern, _ in profiles]),
        methods=methods,
    )


def _head(profiles: Sequence[tuple[str, OptionSet]]) -> list[str]:
    lines = ["Options of RocksDB for the stores of Kafka Streams.", ""]
    for pattern, profile in profiles:
        lines.append(f"Stores {pattern}: {profile.name or 'no name'}. {profile.purpose}".rstrip())
        lines += [_PREFIX_CAUTION] if profile.prefix_bytes else []
        for option, why in not_in_java(profile).items():
            lines.append(f"Not set: {option}: {why}.")
    return lines


def _comment(text: str) -> str:
    """Return text that can't end the comment, nor be read as anything but text."""
    return text.replace("*/", "* /").replace("\\", "/").replace("\n", " ").replace("\r", " ")


def _shared(profiles: Sequence[tuple[str, OptionSet]]) -> list[_CacheObjects]:
    """Return each set of shared objects once, whoever uses it."""
    objects = [_cache_objects(profile) for _, profile in profiles]
    return list(dict.fromkeys(each for each in objects if each.shared and each.cache))


def _fields(shared: list[_CacheObjects]) -> str:
    lines = []
    for number, each in enumerate(shared):
        lines.append(f"    private static final Cache CACHE{number} = {each.cache};\n")
        if each.manager:
            made = _manager(each, f"CACHE{number}")
            lines.append(f"    private static final WriteBufferManager MEMTABLES{number} =\n")
            lines.append(f"            {made};\n")
    return "".join(lines)


def _method(number: int, profile: OptionSet, shared: list[_CacheObjects]) -> str:
    lines = [*_memory(_cache_objects(profile), shared), *_statements(profile)]
    return _METHOD.format(
        title=_comment(profile.purpose or profile.name or "Options of a profile."),
        number=number,
        statements="\n".join(f"        {line}" for line in lines),
    )


def _memory(objects: _CacheObjects, shared: list[_CacheObjects]) -> list[str]:
    if objects.cache is None:
        return []
    if objects in shared:
        number = shared.index(objects)
        manager = f"options.setWriteBufferManager(MEMTABLES{number});"
        return [f"table.setBlockCache(CACHE{number});", *([manager] if objects.manager else [])]
    lines = [f"final Cache cache = owned({objects.cache});", "table.setBlockCache(cache);"]
    if objects.manager:
        lines.append(f"options.setWriteBufferManager(owned({_manager(objects, 'cache')}));")
    return lines


def _manager(objects: _CacheObjects, cache: str) -> str:
    size, stall = objects.manager or ("0", "false")
    return f"new WriteBufferManager({size}, {cache}, {stall})"


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


def _imports(text: str) -> str:
    always = ["BlockBasedTableConfig", "Options", "RocksObject"]
    used = [each for each in _ROCKSDB_CLASSES.split() if re.search(rf"\b{each}\b", text)]
    classes = [
        "java.util.ArrayList",
        "java.util.List",
        "java.util.Map",
        "org.apache.kafka.streams.state.RocksDBConfigSetter",
        *(f"org.rocksdb.{each}" for each in sorted({*always, *used})),
    ]
    return "\n".join(f"import {each};" for each in classes)
