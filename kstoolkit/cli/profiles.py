"""The command that shows a profile as each engine takes it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli.options import AS_JSON_OBJECT
from kstoolkit.cli.terminal import print_json, say
from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from kstoolkit.rocksdb.profiles.profile import Profile


class Target(StrEnum):
    """What a profile is written as."""

    java = "java"
    spark = "spark"
    rocksdict = "rocksdict"
    options = "options"


def profile(
    name: str = typer.Argument(
        ...,
        metavar="NAME",
        help="kafka_streams, spark, bounded_memory, point_lookup, write_heavy, bulk_load, low_disk;"
        " or an OPTIONS file, or the folder of a store.",
        show_default=False,
    ),
    to: Target = typer.Option(
        Target.options,
        "--to",
        help="For whom: Kafka Streams (java), Spark, rocksdict, or by RocksDB's own names.",
    ),
    *,
    as_json: bool = AS_JSON_OBJECT,
    class_name: str | None = typer.Option(
        None,
        "--class",
        metavar="CLASS",
        help="With --to java: what to call the class.  [default: RocksDBOptions]",
        show_default=False,
    ),
    total_mb: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="MiB that bounded_memory is to stay near.  [default: 512]",
        show_default=False,
    ),
    stores: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="How many stores bounded_memory is shared by.  [default: 1]",
        show_default=False,
    ),
) -> None:
    """Print RocksDB options for an engine, and what it lacks.

    The fields of --json: name, purpose, to, unset (option to why), and what was asked for: source,
    settings or options.
    """
    if class_name is not None and to is not Target.java:
        message = "--class says what to call the class of Java, and --to java is missing."
        raise ConfigurationError(message, hint="Add --to java, or leave it out.")
    chosen = _chosen_profile(name, total_mb, stores)
    found = _written(chosen, to, class_name or "RocksDBOptions")
    if as_json:
        print_json([{"name": chosen.name, "purpose": chosen.purpose, "to": to.value, **found}])
    else:
        _show_profile(chosen, to, found)


def _chosen_profile(name: str, total_mb: int | None, stores: int | None) -> Profile:
    from pathlib import Path  # noqa: PLC0415 - beside the one below

    from kstoolkit.rocksdb.profiles.named import (  # noqa: PLC0415
        profile_named,
        profile_names,
    )
    from kstoolkit.rocksdb.profiles.profile import Profile  # noqa: PLC0415 - loads pandas

    if name != "bounded_memory" and (total_mb, stores) != (None, None):
        message = "--total-mb and --stores are for bounded_memory alone."
        raise ConfigurationError(message, hint="Leave them out, or show bounded_memory.")
    if name not in profile_names() and Path(name).exists():
        return Profile.from_options(name)
    return profile_named(
        name, total_bytes=None if total_mb is None else total_mb << 20, stores=stores
    )


def _written(profile: Profile, to: Target, class_name: str) -> dict[str, Any]:
    match to:
        case Target.java:
            from kstoolkit.rocksdb.profiles.java import not_in_java  # noqa: PLC0415 - if asked

            return {"source": profile.to_java(class_name), "unset": not_in_java(profile)}
        case Target.spark:
            return profile.to_spark_conf().to_dict()
        case Target.rocksdict:
            return {"options": profile.changes(), "unset": profile.not_in_rocksdict()}
        case Target.options:
            return {"options": profile.options(), "unset": dict(profile.unknown)}


def _show_profile(profile: Profile, to: Target, found: dict[str, Any]) -> None:
    if to is Target.java:  # whose comment says what isn't set
        _say_lines(found["source"])
        return
    _say_lines(f"# {profile.name}: {profile.purpose}")
    if to is Target.rocksdict:
        from kstoolkit.rocksdb.profiles.rocksdict import python_source  # noqa: PLC0415 - if asked

        _say_lines(python_source(profile))
    else:
        pairs = found["settings"] if to is Target.spark else profile.changes()
        _say_lines("\n".join(f"{key}={value}" for key, value in pairs.items()))
    for option, why in found["unset"].items():
        what = "unknown" if to is Target.options else "not set"
        say(f"# {what}: {option}: {why}")


def _say_lines(text: str) -> None:
    for line in text.rstrip("\n").split("\n"):
        say(line)
