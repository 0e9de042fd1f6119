"""One set of RocksDB options, in RocksDB's own terms, whichever engine they are for.

A :class:`Profile` is compared with another, written for each engine, and read from a store's
OPTIONS file. A :class:`ProfileMap` says which profile each store of an application has, by patterns
of names, in which ``*`` is any text and ``?`` one character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Record, Records, Source, Viewed, of_source
from kstoolkit.rocksdb.profiles.java import EVERY_STORE, java_setter, pattern_expression
from kstoolkit.rocksdb.profiles.options import Left, OptionSet, find_options
from kstoolkit.rocksdb.profiles.presets import left_with, named_options
from kstoolkit.rocksdb.profiles.spark import settings_text, spark_conf

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import pandas as pd
    import rocksdict

    from kstoolkit.rocksdb.profiles.rocksdict import SharedMemory
    from kstoolkit.rocksdb.profiles.spark import SparkConf

OPTIONS_FILE = "OPTIONS file"
"""The base of a profile that was read from a file: nobody says which of it was set on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(OptionSet, Viewed):
    """A named set of RocksDB options, which every engine can be given.

    An engine is told what was *set*, and leaves the rest as it has it: ``settings()`` are the first
    alone, ``options()`` both. :meth:`on` lays what was set over what another engine leaves.

    Parameters
    ----------
    name, purpose
        What it is called and whom it is for; not compared.
    **options
        The options, as :class:`~kstoolkit.rocksdb.profiles.options.OptionSet` lists them; each
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

    @classmethod
    def from_options(
        cls, path: str | os.PathLike[str], *, column_family: str = "default"
    ) -> Profile:
        """Return the options a store was last opened with, whichever engine wrote it.

        Parameters
        ----------
        path
            An ``OPTIONS-*`` file, or the folder of a store: then its newest one is read, and what
            those don't hold (block cache, bits of filters, whether writes were logged) in its LOG,
            as far as that tells. Nothing is opened or changed.
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
        return cls(base=OPTIONS_FILE, **find_options(path, column_family))

    def changed(self, **options: Any) -> Profile:
        """Return the same profile with some options set otherwise.

        ``why`` says for what reason, by their names.

        Examples
        --------
        >>> Profile(name="mine").changed(write_buffer_size=1 << 20)
        Profile(name='mine, changed', write_buffer_size=1048576)
        """
        name = options.pop("name", f"{self.name.removesuffix(', changed')}, changed".strip(", "))
        still = {each: why for each, why in self.unknown.items() if each not in options}
        unknown = still | options.pop("unknown", {})
        why = {**self.why, **options.pop("why", {})}
        left: dict[str, Any] = {each: Left(value) for each, value in self.options().items()}
        told = {"purpose": self.purpose, "base": self.base, "why": why, "unknown": unknown}
        return type(self)(**left | self.settings() | told | options, name=name)

    def on(self, engine: str) -> Profile:
        """Return the profile as an engine has it that is told what was set, and leaves the rest.

        Parameters
        ----------
        engine
            ``"kafka_streams"``, ``"spark"`` or ``"rocksdb"``.

        Raises
        ------
        ConfigurationError
            If there is no such engine, or what it leaves contradicts what was set.

        Examples
        --------
        >>> profile = Profile(name="mine", block_size=8192).on("kafka_streams")
        >>> profile.compaction_style, profile.block_size, profile.settings()
        ('universal', 8192, {'block_size': 8192})
        """
        over = left_with(engine) | {"name": self.name, "purpose": self.purpose, "why": self.why}
        over["unknown"] = {n: w for n, w in over["unknown"].items() if n not in self.given}
        return type(self)(**over | self.settings())

    def diff(self, other: Profile | str) -> Records[OptionDifference]:
        """Return each option in which two profiles differ, with both values.

        Parameters
        ----------
        other
            A profile, or the name of one. An option that is unknown on one side is told; one that
            is unknown on both is not.

        Examples
        --------
        >>> found = Profile().diff(Profile(compression="lz4"))
        >>> found[0].option, found[0].left, found[0].right
        ('compression', 'snappy', 'lz4')
        """
        chosen = other if isinstance(other, Profile) else Profile(**named_options(other))
        names, others = (self.name or "left", chosen.name or "right"), chosen.options()
        rows = []
        for option, value in self.options().items():
            if value != others[option]:
                whys = {"left": self.unknown.get(option), "right": chosen.unknown.get(option)}
                unknown = {side: why for side, why in whys.items() if why is not None}
                rows.append(OptionDifference(option, *names, value, others[option], unknown))
        return Records(rows, "options that differ")

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
        from kstoolkit.rocksdb.profiles.rocksdict import rocksdict_options  # noqa: PLC0415 - loads RocksDB

        return rocksdict_options(self, shared)

    def not_in_rocksdict(self) -> dict[str, str]:
        """Return the options that a store opened through rocksdict won't have, and why.

        Examples
        --------
        >>> Profile(info_log_level="error").not_in_rocksdict()
        {'info_log_level': "rocksdict has no setter; it leaves 'info'"}
        """
        from kstoolkit.rocksdb.profiles.rocksdict import not_in_rocksdict  # noqa: PLC0415 - loads RocksDB

        return not_in_rocksdict(self)

    def read_options(self) -> rocksdict.ReadOptions:
        """Return rocksdict's options for reads.

        Iterate with these over stores that have a prefix: without them, RocksDB finds nothing from
        a key on whose prefix is absent.
        """
        from kstoolkit.rocksdb.profiles.rocksdict import read_options  # noqa: PLC0415 - loads RocksDB

        return read_options(self)

    def write_options(self) -> rocksdict.WriteOptions:
        """Return rocksdict's options for writes."""
        from kstoolkit.rocksdb.profiles.rocksdict import write_options  # noqa: PLC0415 - loads RocksDB

        return write_options(self)

    def to_spark_conf(self) -> SparkConf:
        """Return Spark's configuration for what was set, and what Spark can't set of it.

        Examples
        --------
        >>> conf = Profile(max_write_buffer_number=4).to_spark_conf()
        >>> conf.settings["spark.sql.streaming.stateStore.rocksdb.maxWriteBufferNumber"]
        '4'
        """
        return spark_conf(self)

    def to_java(self, class_name: str) -> str:
        """Return the source of a Kafka Streams ``RocksDBConfigSetter`` that sets what was set here.

        Each line has its reason; what it can't or mustn't set is in the comment at its head.

        Raises
        ------
        ConfigurationError
            If ``class_name`` is no name of a Java class, or one that its source uses itself.
        """
        return java_setter(class_name, [(EVERY_STORE, self)])

    def to_pandas(self) -> pd.DataFrame:
        """Return one row an option: ``option``, ``value``, ``rocksdb``'s own, ``why_unknown``.

        Examples
        --------
        >>> table = Profile(compression="lz4").to_pandas().set_index("option")
        >>> table.loc["compression", ["value", "rocksdb"]].tolist()
        ['lz4', 'snappy']
        """
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        own, values = Profile().options(), self.options()
        rows = [(name, values[name], own[name], self.unknown.get(name)) for name in own]
        columns = ["option", "value", "rocksdb", "why_unknown"]
        return pd.DataFrame(rows, columns=columns, dtype=object)

    def __repr__(self) -> str:
        shown = ({"name": self.name} if self.name else {}) | self.changes() | self.settings()
        told = [f"{each}={value!r}" for each, value in shown.items() if value is not None]
        unknown = [f"{len(self.unknown)} unknown"] if self.unknown else []
        return f"Profile({', '.join(told + unknown)})"

    def _repr_html_(self) -> str:
        texts = {name: value_text(value) for name, value in self.changes().items()}
        texts |= {name: f"unknown ({reason})" for name, reason in self.unknown.items()}
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in texts.items()
        )
        return f"<p>{escape(repr(self))}</p><p>{escape(self.purpose)}</p><table>{rows}</table>"


@dataclass(frozen=True, slots=True)
class OptionDifference(Record):
    """One option that two profiles set differently.

    Parameters
    ----------
    option, left_name, right_name
        Its name, and what the profiles are called.
    left, right, unknown
        What each profile says; None is unknown, and why.

    Examples
    --------
    >>> why = {"right": "there is no file"}
    >>> print(OptionDifference("compression", "a", "b", "none", None, why))
    compression: 'none' (a), unknown (there is no file) (b)
    """

    option: str
    left_name: str
    right_name: str
    left: Any = of_source(Source.PROFILE)
    right: Any = of_source(Source.PROFILE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        left = value_text(self.left, self.unknown.get("left"))
        right = value_text(self.right, self.unknown.get("right"))
        return f"{self.option}: {left} ({self.left_name}), {right} ({self.right_name})"


def value_text(value: Any, why_unknown: str | None = None) -> str:
    """Return an option's value for people.

    >>> value_text(4096), value_text(True), value_text(None, "no file")
    ('4096', 'True', 'unknown (no file)')
    """
    return f"unknown ({why_unknown or 'not told'})" if value is None else repr(value)


@dataclass(frozen=True, slots=True)
class ProfileMap:
    """Profiles by the names of stores; the first pattern that a name matches decides.

    Parameters
    ----------
    profiles
        Patterns, in which ``*`` is any text and ``?`` one character, with their profiles. None may
        come twice, and the last one must be ``"*"``, so that no store is without.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.named import profile_named
    >>> known = {"counts-*": profile_named("point_lookup"), "*": profile_named("kafka_streams")}
    >>> stores = ProfileMap.of(known)
    >>> stores.for_store("counts-1h").name, stores.for_store("sessions").name
    ('point_lookup', 'kafka_streams')
    """

    profiles: tuple[tuple[str, Profile], ...]

    def __post_init__(self) -> None:
        patterns = [pattern for pattern, _ in self.profiles]
        twice = sorted({each for each in patterns if patterns.count(each) > 1})
        if twice:
            message = f"The pattern {twice[0]!r} comes twice."
            raise ConfigurationError(message, hint="Give each pattern one profile.")
        if EVERY_STORE not in patterns[-1:]:
            message = f"The last pattern is not '*': {', '.join(patterns) or 'there is none'}."
            raise ConfigurationError(message, hint="End with '*' and the profile of all others.")

    @classmethod
    def of(cls, profiles: Mapping[str, Profile]) -> ProfileMap:
        """Return the map of a dictionary, in its order."""
        return cls(tuple(profiles.items()))

    def for_store(self, name: str) -> Profile:
        """Return the profile of the store of this name."""
        return next(
            profile
            for pattern, profile in self.profiles
            if re.fullmatch(pattern_expression(pattern), name, re.DOTALL)
        )

    def to_java(self, class_name: str) -> str:
        """Return one Kafka Streams ``RocksDBConfigSetter`` that sets all of them.

        It is as that of one profile; those whose shared caches are alike share one.
        """
        return java_setter(class_name, self.profiles)

    def __repr__(self) -> str:
        told = ", ".join(f"{pattern!r}: {profile.name!r}" for pattern, profile in self.profiles)
        return f"ProfileMap({told})"


def python_source(profile: Profile) -> str:
    """Return a program that makes rocksdict's options of a profile.

    >>> print(python_source(Profile(compression="lz4")))
    from kstoolkit.rocksdb.profiles.profile import Profile
    <BLANKLINE>
    profile = Profile(
        compression='lz4',
    )
    options = profile.to_rocksdict()
    reads, writes = profile.read_options(), profile.write_options()
    """
    texts = {name: repr(value) for name, value in (profile.changes() | profile.settings()).items()}
    lines = settings_text(texts, profile.why).splitlines()
    arguments = "".join(f"    {each}{'' if each.startswith('#') else ','}\n" for each in lines)
    made = f"Profile(\n{arguments})" if arguments else "Profile()"
    return (
        f"from kstoolkit.rocksdb.profiles.profile import Profile\n\nprofile = {made}\n"
        "options = profile.to_rocksdict()\n"
        "reads, writes = profile.read_options(), profile.write_options()"
    )
