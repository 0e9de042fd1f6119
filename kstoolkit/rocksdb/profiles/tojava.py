"""Profiles as the source of a Kafka Streams ``RocksDBConfigSetter``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kstoolkit.rocksdb.profiles.javanames import check_class_name
from kstoolkit.rocksdb.profiles.javastatements import cache_objects, not_in_java, statements
from kstoolkit.rocksdb.profiles.storenames import EVERY_STORE, pattern_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.profiles.javastatements import CacheObjects
    from kstoolkit.rocksdb.profiles.profile import Profile


_ROCKSDB_CLASSES = (
    "BlockBasedTableConfig",
    "BloomFilter",
    "Cache",
    "ChecksumType",
    "CompactionOptionsFIFO",
    "CompactionOptionsUniversal",
    "CompactionPriority",
    "CompactionStyle",
    "CompressionType",
    "DataBlockIndexType",
    "IndexType",
    "InfoLogLevel",
    "LRUCache",
    "Options",
    "RateLimiter",
    "RocksObject",
    "Statistics",
    "WriteBufferManager",
)
_USED = {*_ROCKSDB_CLASSES, "ArrayList", "List", "Map", "RocksDBConfigSetter"}
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


def java_setter(class_name: str, profiles: Sequence[tuple[str, Profile]]) -> str:
    """Return the source of a class that configures each store by the first pattern it matches.

    Parameters
    ----------
    class_name
        What to call it, with its package if it is to have one.
    profiles
        Patterns of store names and their profiles; stores that match none keep what Kafka Streams
        sets.

    Raises
    ------
    ConfigurationError
        If ``class_name`` is no name of a Java class, or one that its source uses itself.
    """
    check_class_name(class_name, used=_USED)
    package, _, name = class_name.rpartition(".")
    shared = _shared(profiles)
    methods = "".join(
        _method(number, profile, shared) for number, (_, profile) in enumerate(profiles)
    )
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


def _head(profiles: Sequence[tuple[str, Profile]]) -> list[str]:
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


def _shared(profiles: Sequence[tuple[str, Profile]]) -> list[CacheObjects]:
    """Return each set of shared objects once, whoever uses it."""
    objects = [cache_objects(profile) for _, profile in profiles]
    return list(dict.fromkeys(each for each in objects if each.shared and each.cache))


def _fields(shared: list[CacheObjects]) -> str:
    lines = []
    for number, each in enumerate(shared):
        lines.append(f"    private static final Cache CACHE{number} = {each.cache};\n")
        if each.manager:
            made = _manager(each, f"CACHE{number}")
            lines.append(f"    private static final WriteBufferManager MEMTABLES{number} =\n")
            lines.append(f"            {made};\n")
    return "".join(lines)


def _method(number: int, profile: Profile, shared: list[CacheObjects]) -> str:
    lines = [*_memory(cache_objects(profile), shared), *statements(profile)]
    return _METHOD.format(
        title=_comment(profile.purpose or profile.name or "Options of a profile."),
        number=number,
        statements="\n".join(f"        {line}" for line in lines),
    )


def _memory(objects: CacheObjects, shared: list[CacheObjects]) -> list[str]:
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


def _manager(objects: CacheObjects, cache: str) -> str:
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
    used = [each for each in _ROCKSDB_CLASSES if re.search(rf"\b{each}\b", text)]
    classes = [
        "java.util.ArrayList",
        "java.util.List",
        "java.util.Map",
        "org.apache.kafka.streams.state.RocksDBConfigSetter",
        *(f"org.rocksdb.{each}" for each in sorted({*always, *used})),
    ]
    return "\n".join(f"import {each};" for each in classes)
