"""The config setter that is written for a profile: compiled, run, and seen in the store it made."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest

from kstoolkit.environment import find_java
from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.java import not_in_java
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named, profile_names
from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionPlace
from kstoolkit.rocksdb.profiles.profile import Profile, ProfileMap
from tests.rocksdb.otheroptions import changed

JARS = Path(pyspark.__file__).parent / "jars"
KAFKA_STREAMS = "4.3.1"
PLAIN = profile_named("kafka_streams")
PROFILES = {f"Named_{name}": profile_named(name) for name in profile_names()}
PROFILES |= {f"Changed_{name}": changed(name) for name in OPTIONS}

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
    beside = find_java().home / "bin" / "javac"
    found = str(beside) if beside.exists() else shutil.which("javac")
    if found is None:
        pytest.skip("no javac: compiling Java takes a JDK")
    return found


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
    lint = ["-Xlint:all,-classfile,-processing", "-Werror", "-encoding", "UTF-8"]
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
    differ = {each.option for each in profile.diff(found)} - found.unknown.keys()
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
        differ = {each.option for each in wanted.diff(found)} - found.unknown.keys()
        assert differ <= not_in_java(wanted).keys(), store


def test_what_is_shared_is_static_and_never_closed_and_what_is_not_is_closed_with_its_store() -> (
    None
):
    shared = bounded_memory(64 << 20, 4).to_java("Bounded")
    assert "private static final Cache CACHE0 = new LRUCache(67108864L, -1, false, 0.1);" in shared
    assert "new WriteBufferManager(33554432, CACHE0, false);" in shared
    assert "owned(new LRUCache" not in shared
    own = Profile(block_cache_bytes=1 << 20).to_java("Own")
    assert "table.setBlockCache(cache);" in own
    assert "final Cache cache = owned(new LRUCache(1048576L, -1, false, 0.5));" in own
    assert "static" not in own


def test_profiles_that_share_alike_share_one_cache_and_others_have_their_own() -> None:
    one, other = bounded_memory(64 << 20, 4), bounded_memory(32 << 20, 4)
    alike = one.changed(block_size=8192)
    source = ProfileMap.of({"a": one, "b": alike, "c": other, "*": PLAIN}).to_java("Few")
    assert source.count("new LRUCache(") == 2
    assert source.count("table.setBlockCache(CACHE0);") == 2
    assert source.count("table.setBlockCache(CACHE1);") == 1


def test_the_table_configuration_that_is_there_is_used_again() -> None:
    source = PLAIN.to_java("com.example.Same")
    assert source.startswith("package com.example;\n")
    assert "(BlockBasedTableConfig) options.tableFormatConfig();" in source
    assert "new BlockBasedTableConfig" not in source


def test_a_prefix_which_range_scans_would_suffer_from_is_warned_of() -> None:
    assert "Careful: with a prefix" in profile_named("point_lookup").to_java("Prefixed")
    assert "Careful" not in PLAIN.to_java("Plain")


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
    ("profiles", "said"),
    [({}, "there is none"), ({"a": PLAIN}, r"The last pattern is not '\*'")],
)
def test_a_map_that_leaves_stores_without_a_profile_is_refused(
    profiles: dict[str, Profile], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ProfileMap.of(profiles)


def test_a_pattern_that_comes_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="comes twice"):
        ProfileMap((("a", PLAIN), ("a", PLAIN), ("*", PLAIN)))
