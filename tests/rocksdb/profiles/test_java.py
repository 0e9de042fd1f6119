"""The config setter that is written for a profile: compiled, run, and seen in the store it made."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest

from kstoolkit.environment import find_java
from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.java import not_in_java
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named
from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionPlace
from kstoolkit.rocksdb.profiles.profile import Profile, ProfileMap
from tests.jdk import compiler
from tests.rocksdb.otheroptions import changed

JARS = Path(pyspark.__file__).parent / "jars"
KAFKA_STREAMS = "4.3.1"
PLAIN = profile_named("kafka_streams")
PROFILES = {f"Changed_{name}": changed(name) for name in OPTIONS}

HARNESS = """
import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.*;

/** Opens a store with each setter, after setting what Kafka Streams sets in openDB. */
public class Harness {
    public static void main(final String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        for (int i = 1; i < arguments.length; i++) {
            final String name = arguments[i].split("=")[0];
            final String storeName = arguments[i].split("=")[1];
            final Options options = new Options();
            final BlockBasedTableConfig table = new BlockBasedTableConfig();
            table.setBlockCache(new LRUCache(50L << 20));
            table.setBlockSize(4096);
            table.setFilterPolicy(new BloomFilter());
            options.setOptimizeFiltersForHits(true);
            options.setTableFormatConfig(table);
            options.setWriteBufferSize(16L << 20);
            options.setCompressionType(CompressionType.NO_COMPRESSION);
            options.setCompactionStyle(CompactionStyle.UNIVERSAL);
            options.setMaxWriteBufferNumber(3);
            options.setCreateIfMissing(true);
            options.setInfoLogLevel(InfoLogLevel.ERROR_LEVEL);
            options.setIncreaseParallelism(Math.max(Runtime.getRuntime().availableProcessors(), 2));
            options.setAtomicFlush(true);
            final RocksDBConfigSetter setter =
                (RocksDBConfigSetter) Class.forName(name).getDeclaredConstructor().newInstance();
            setter.setConfig(storeName, options, Map.of());
            if (options.tableFormatConfig() != table) {
                throw new IllegalStateException(name + " set another table configuration");
            }
            final String path = arguments[0] + "/" + name + "." + storeName;
            try (RocksDB store = RocksDB.open(options, path)) {
                store.put("key".getBytes(), "value".getBytes());
                store.flush(new FlushOptions().setWaitForFlush(true));
            }
            options.close();
            setter.close(storeName, options);
        }
    }
}
"""


@pytest.fixture(scope="session")
def javac() -> str:
    """Return the compiler of the Java that runs here, or of PATH."""
    return compiler()


@pytest.fixture(scope="session")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the jars of Kafka Streams and RocksJava; Ivy, which comes with Spark, finds them."""
    folder = tmp_path_factory.mktemp("jars")
    module = ["org.apache.kafka", "kafka-streams", KAFKA_STREAMS]
    ivy = [str(find_java().home / "bin" / "java"), "-cp", str(next(JARS.glob("ivy-*.jar")))]
    options = ["-notransitive", "-confs", "default", "-types", "jar", "-dependency", *module]
    where = str(folder / "[artifact]-[revision].[ext]")
    done = subprocess.run(
        [*ivy, "org.apache.ivy.Main", *options, "-retrieve", where],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,
    )
    found = [*folder.glob("*.jar"), *JARS.glob("rocksdbjni-*.jar"), *JARS.glob("slf4j-api-*.jar")]
    assert len(found) == 3, f"Kafka Streams {KAFKA_STREAMS} was not found: {done.stdout}"
    return os.pathsep.join(map(str, found))


def compiled(sources: dict[str, str], folder: Path, javac: str, classpath: str) -> None:
    folder.mkdir()
    files = []
    for name, source in sources.items():
        files.append(folder / f"{name}.java")
        files[-1].write_text(source, encoding="utf-8")
    lint = ["-Xlint:all,-classfile,-processing", "-Werror", "--release", "17", "-encoding", "UTF-8"]
    done = subprocess.run(
        [javac, *lint, "-cp", classpath, "-d", str(folder), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory, javac: str, classpath: str) -> Path:
    """Return a folder with a store that RocksJava opened with the setter of each profile."""
    folder = tmp_path_factory.mktemp("stores")
    classes = folder / "classes"
    sources = {name: profile.to_java(name) for name, profile in PROFILES.items()}
    sources["Mapped"] = MAPPED.to_java("Mapped")
    compiled(sources, classes, javac, classpath)
    (folder / "Harness.java").write_text(HARNESS)
    opened = [f"{name}=store" for name in PROFILES] + [f"Mapped={each}" for each in MAPPED_STORES]
    java = [str(find_java().home / "bin" / "java"), "-cp", f"{classes}{os.pathsep}{classpath}"]
    done = subprocess.run(
        [*java, str(folder / "Harness.java"), str(folder), *opened],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


MAPPED = ProfileMap.of(
    {
        "counts.1h?": profile_named("point_lookup"),
        'odd"\\ *': profile_named("write_heavy"),
        "bounded-*": bounded_memory(64 << 20, 4),
        "*": PLAIN,
    }
)
MAPPED_STORES = {
    "counts.1hx": "point_lookup",
    'odd"\\ one': "write_heavy",
    "bounded-a": "bounded_memory",
    "countsX1hx": "kafka_streams",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_a_store_of_kafka_streams_has_all_of_the_profile_but_what_is_said_not_to_be_set(
    name: str, stores: Path
) -> None:
    profile = PROFILES[name]
    found = Profile.from_options(stores / f"{name}.store")
    # Kafka Streams has no log to wait for; and flushes atomically, which merges nothing.
    alone = {"Changed_sync", "Changed_min_write_buffer_number_to_merge"}
    over = profile if name in alone else profile.on("kafka_streams")
    differ = {each.option for each in over.diff(found)} & set(profile.given)
    differ -= found.unknown.keys()
    told = {n for n in not_in_java(profile) if OPTIONS[n].place is not OptionPlace.NOWHERE}
    assert differ - profile.unknown.keys() == told - profile.unknown.keys() - found.unknown.keys()


@pytest.mark.slow
def test_one_setter_gives_each_store_the_profile_of_the_first_pattern_it_matches(
    stores: Path,
) -> None:
    for store, name in MAPPED_STORES.items():
        found = Profile.from_options(stores / f"Mapped.{store}")
        wanted = MAPPED.for_store(store)
        assert wanted.name == name
        over = wanted.on("kafka_streams")
        differ = {each.option for each in over.diff(found)} - found.unknown.keys()
        assert differ <= not_in_java(wanted).keys(), store


def test_what_is_shared_is_static_and_never_closed_and_what_is_not_is_closed_with_its_store() -> (
    None
):
    shared = bounded_memory(64 << 20, 4).to_java("Bounded")
    assert "new LRUCache(67108864L, -1, false, 0.1);" in shared
    assert "new WriteBufferManager(33554432, CACHE0, false);" in shared
    assert shared.count("private static final") == 2
    assert "owned" not in shared
    own = Profile(block_cache_bytes=1 << 20).to_java("Own")
    assert "table.setBlockCache(cache);" in own
    assert "final Cache cache = owned(new LRUCache(1048576L, -1, false, 0.0));" in own
    assert "static" not in own


def test_profiles_that_share_alike_share_one_cache_and_others_have_their_own() -> None:
    one, other = bounded_memory(64 << 20, 4), bounded_memory(32 << 20, 4)
    alike = one.changed(block_size=8192)
    source = ProfileMap.of({"a": one, "b": alike, "c": other, "*": PLAIN}).to_java("Few")
    assert source.count("new LRUCache(") == 2
    assert source.count("table.setBlockCache(CACHE0);") == 2
    assert source.count("table.setBlockCache(CACHE1);") == 1


def test_the_table_configuration_that_is_there_is_used_again() -> None:
    source = Profile(block_size=8192).to_java("com.example.Same")
    assert source.startswith("package com.example;\n")
    assert "(BlockBasedTableConfig) options.tableFormatConfig();" in source
    assert "new BlockBasedTableConfig" not in source


HARMFUL: list[tuple[dict[str, Any], str]] = [
    ({"prefix_bytes": 4}, "prefix_bytes: range, reverseRange and prefixScan would find nothing"),
    ({"prefix_bytes": 4, "index_type": "hash_search"}, "index_type: it needs a prefix"),
    ({"avoid_flush_during_shutdown": True}, "what is in memtables would be lost"),
    ({"statistics": True}, "Kafka Streams would no longer export its own"),
    ({"compaction_style": "fifo"}, "compaction_style: it deletes the oldest rows"),
    ({"fifo_max_table_files_size": 1 << 20}, "the fifo style deletes the oldest rows"),
]


@pytest.mark.parametrize(("harm", "said"), HARMFUL)
def test_what_would_harm_a_store_of_kafka_streams_is_not_written_and_said(
    harm: dict[str, Any], said: str
) -> None:
    source = Profile(**harm, block_size=8192).to_java("Harmless")
    assert said in source
    assert re.findall(r"(?:options|table)\.(\w+)\(", source) == [
        "tableFormatConfig",
        "setBlockSize",
        "setTableFormatConfig",
    ]


def test_what_many_stores_would_come_to_is_said_of_what_was_set_alone() -> None:
    small = bounded_memory(512 << 20, stores=1000).to_java("Small")
    assert "Careful: Memtables of 131.1 KiB" in small
    large = Profile(block_cache_bytes=400 << 20).to_java("Large")
    assert "may take 528.0 MiB of memtables and cache, a hundred of them 51.6 GiB" in large
    for name in ("kafka_streams", "bounded_memory", "low_disk"):
        assert "Careful" not in profile_named(name).to_java("Calm")


def test_each_line_has_the_reason_that_was_given() -> None:
    why = {"block_size": "fewer */ blocks", "max_open_files": "as many as there may be"}
    source = Profile(block_size=8192, max_open_files=300, why=why).to_java("Reasoned")
    assert "// fewer * / blocks\n        table.setBlockSize(8192);" in source
    assert "// as many as there may be\n        options.setMaxOpenFiles(300);" in source


@pytest.mark.slow
def test_what_a_file_tells_is_set_where_kafka_streams_leaves_it_otherwise(stores: Path) -> None:
    found = Profile.from_options(stores / "Changed_max_open_files.store")
    source = found.to_java("Again")
    assert re.findall(r"options\.(set\w+)\(", source) == ["setMaxOpenFiles"]


def test_what_cannot_be_set_stands_in_the_comment_and_nothing_else_does() -> None:
    profile = Profile(purpose="ends */ here \\u002a/", sync=True, fill_cache=False)
    source = profile.to_java("Told")
    assert "Not set: sync: Kafka Streams never writes a write-ahead log" in source
    assert "Not set: fill_cache" in source
    assert "*/ here" not in source
    assert "\\u" not in source


WRONG: list[Any] = ["", "1a", "a b", "a;", "a..B", "class!", "com.example.", None, 7]
RESERVED = ["class", "com.example.enum", "com.new.Setter", "true", "null", "_", "record", "var"]


@pytest.mark.parametrize("name", WRONG + RESERVED)
def test_a_name_that_java_would_not_take_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="no name of a Java class"):
        PLAIN.to_java(name)


@pytest.mark.parametrize("name", ["Options", "com.example.List", "RocksDBConfigSetter", "String"])
def test_a_name_that_the_class_uses_itself_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="uses one of this name itself"):
        PLAIN.to_java(name)


def test_words_that_are_reserved_for_types_alone_are_names_of_packages() -> None:
    assert "package record.var;" in PLAIN.to_java("record.var.Setter")


@pytest.mark.parametrize(
    ("profiles", "said"), [({}, "there is none"), ({"a": PLAIN}, r"The last pattern is not '\*'")]
)
def test_a_map_that_leaves_stores_without_a_profile_is_refused(
    profiles: dict[str, Profile], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ProfileMap.of(profiles)


def test_a_pattern_that_comes_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="comes twice"):
        ProfileMap((("a", PLAIN), ("a", PLAIN), ("*", PLAIN)))
