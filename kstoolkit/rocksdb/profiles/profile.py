"""One set of RocksDB options, in RocksDB's own terms, whichever engine they are for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Viewed
from kstoolkit.rocksdb.profiles.optioncheck import check_text, options_of
from kstoolkit.rocksdb.profiles.optionset import OptionSet, defaults_beside

if TYPE_CHECKING:
    import os

    import pandas as pd
    import rocksdict

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.profiles.difference import Difference
    from kstoolkit.rocksdb.profiles.sharedmemory import SharedMemory
    from kstoolkit.rocksdb.profiles.tospark import SparkConf


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(OptionSet, Viewed):
    """A named set of RocksDB options, which every engine can be given.

    Parameters
    ----------
    name, purpose
        What it is called and whom it is for; not compared.
    **options
        The options, as :class:`~kstoolkit.rocksdb.profiles.optionset.OptionSet` lists them; each
        default is RocksDB's own.

    Raises
    ------
    ConfigurationError
        If a value makes no sense, or two of them contradict each other.

    Examples
    --------
    >>> Profile(name="mine", write_buffer_size=32 << 20, compaction_style="universal")
    Profile(name='mine', write_buffer_size=33554432, compaction_style='universal')
    >>> Profile(level0_stop_writes_trigger=10)
    Traceback (most recent call last):
        ...
    kstoolkit.errors.ConfigurationError: level0_stop_writes_trigger is 10, below
    level0_slowdown_writes_trigger, which is 20.
    Hint: Raise the first or lower the second.
    """

    name: str = field(default="", compare=False)
    purpose: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("purpose", self.purpose)):
            check_text(what, text)
        OptionSet.__post_init__(self)

    @classmethod
    def from_options(
        cls, path: str | os.PathLike[str], *, column_family: str = "default"
    ) -> Profile:
        """Return the options a store was last opened with, whichever engine wrote it.

        Parameters
        ----------
        path
            An ``OPTIONS-*`` file, or the folder of a store: then its newest one is read. Nothing
            is opened or changed.
        column_family
            Whose options.

        Raises
        ------
        InputError
            If there is no such file, it can't be read, it has no such column family, or ``path`` is
            a file of another kind.
        FormatError
            If that of a store's folder is no OPTIONS file.

        Examples
        --------
        >>> from rocksdict import Rdict
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Rdict(folder, Profile(block_size=8192).to_rocksdict()).close()
        ...     Profile.from_options(folder).block_size
        8192
        """
        from kstoolkit.rocksdb.profiles.fromoptions import find_options  # noqa: PLC0415 - only if asked

        found = find_options(path, options_of(cls), column_family)
        return cls(name=found.name, purpose=found.purpose, unknown=found.unknown, **found.values)

    def changes(self) -> dict[str, Any]:
        """Return the options that are known and differ from RocksDB's own.

        Examples
        --------
        >>> Profile(compression="lz4").changes()
        {'compression': 'lz4'}
        """
        own = defaults_beside(self) | {
            "compaction_style": "level",
            "rate_limit_bytes_per_second": 0,
        }
        known = {name: value for name, value in self.options().items() if value is not None}
        return {name: value for name, value in known.items() if value != own[name]}

    def changed(self, **options: Any) -> Profile:
        """Return the same profile with some options set otherwise.

        Examples
        --------
        >>> Profile(name="mine").changed(write_buffer_size=1 << 20)
        Profile(name='mine, changed', write_buffer_size=1048576)
        """
        name = options.pop("name", f"{self.name.removesuffix(', changed')}, changed".strip(", "))
        still = {each: why for each, why in self.unknown.items() if each not in options}
        unknown = still | options.pop("unknown", {})
        return replace(self, name=name, unknown=unknown, **options)

    def diff(self, other: Profile | str) -> Records[Difference]:
        """Return each option in which two profiles differ, with both values.

        Parameters
        ----------
        other
            A profile, or the name of one.

        Raises
        ------
        ConfigurationError
            If there is none of this name.

        Examples
        --------
        >>> found = Profile().diff(Profile(compression="lz4"))
        >>> found[0].option, found[0].left, found[0].right
        ('compression', 'snappy', 'lz4')
        """
        from kstoolkit.rocksdb.profiles.difference import differences  # noqa: PLC0415 - only if asked
        from kstoolkit.rocksdb.profiles.namedoptions import named_options  # noqa: PLC0415 - only if asked

        chosen = other if isinstance(other, Profile) else Profile(**named_options(other))
        return differences(self, chosen)

    def to_rocksdict(self, *, shared: SharedMemory | None = None) -> rocksdict.Options:
        """Return options for rocksdict, raw bytes in and out.

        What rocksdict can't set is in :meth:`not_in_rocksdict`; the options of reading and writing
        are :meth:`read_options` and :meth:`write_options`. Open a store that is there already with
        ``Rdict(path, options, column_families={"default": options})``: without the last, rocksdict
        keeps the memtables, tables and compaction that it had, with a cache of its own.

        Parameters
        ----------
        shared
            The block cache and write-buffer manager to use, such as other stores use too; without
            it the store gets its own, as large as the profile says.

        Examples
        --------
        >>> type(Profile(compression="none").to_rocksdict()).__name__
        'Options'
        """
        from kstoolkit.rocksdb.profiles.torocksdict import rocksdict_options  # noqa: PLC0415 - loads RocksDB

        return rocksdict_options(self, shared)

    def not_in_rocksdict(self) -> dict[str, str]:
        """Return the options that a store opened through rocksdict won't have, and why.

        Examples
        --------
        >>> Profile(info_log_level="error").not_in_rocksdict()
        {'info_log_level': "rocksdict has no setter; it leaves 'info'"}
        """
        from kstoolkit.rocksdb.profiles.torocksdict import not_in_rocksdict  # noqa: PLC0415 - loads RocksDB

        return not_in_rocksdict(self)

    def read_options(self) -> rocksdict.ReadOptions:
        """Return rocksdict's options for reads.

        Iterate with these over stores that have a prefix: without them, RocksDB finds nothing from
        a key on whose prefix is absent.
        """
        from kstoolkit.rocksdb.profiles.torocksdict import read_options  # noqa: PLC0415 - loads RocksDB

        return read_options(self)

    def write_options(self) -> rocksdict.WriteOptions:
        """Return rocksdict's options for writes."""
        from kstoolkit.rocksdb.profiles.torocksdict import write_options  # noqa: PLC0415 - loads RocksDB

        return write_options(self)

    def to_spark_conf(self) -> SparkConf:
        """Return Spark's configuration for these options, and what Spark can't set.

        Examples
        --------
        >>> conf = Profile(max_write_buffer_number=4).to_spark_conf()
        >>> conf.settings["spark.sql.streaming.stateStore.rocksdb.maxWriteBufferNumber"]
        '4'
        """
        from kstoolkit.rocksdb.profiles.tospark import spark_conf  # noqa: PLC0415 - only if asked

        return spark_conf(self)

    def to_java(self, class_name: str) -> str:
        """Return the source of a Kafka Streams ``RocksDBConfigSetter`` that sets these options.

        What it can't set is listed in the comment at its head.

        Raises
        ------
        ConfigurationError
            If ``class_name`` is no name of a Java class, or one that its source uses itself.
        """
        from kstoolkit.rocksdb.profiles.tojava import java_setter  # noqa: PLC0415 - only if asked

        return java_setter(class_name, [("*", self)])

    def to_pandas(self) -> pd.DataFrame:
        """Return one row an option: ``option``, ``value``, ``rocksdb``'s own, ``why_unknown``."""
        from kstoolkit.rocksdb.profiles.difference import option_table  # noqa: PLC0415 - only if asked

        return option_table(self)

    def __repr__(self) -> str:
        name = {"name": self.name} if self.name else {}
        told = [f"{each}={value!r}" for each, value in (name | self.changes()).items()]
        unknown = [f"{len(self.unknown)} unknown"] if self.unknown else []
        return f"Profile({', '.join(told + unknown)})"

    def _repr_html_(self) -> str:
        from kstoolkit.rocksdb.profiles.difference import value_text  # noqa: PLC0415 - only if asked

        texts = {name: value_text(value) for name, value in self.changes().items()}
        texts |= {name: f"unknown ({reason})" for name, reason in self.unknown.items()}
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in texts.items()
        )
        return f"<p>{escape(repr(self))}</p><p>{escape(self.purpose)}</p><table>{rows}</table>"
