"""Advice on files and disk: space, tombstones, files that are too small or too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.records import Figure, Source, counted
from kstoolkit.rocksdb.advice.advice import Advice, Unjudged
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from kstoolkit.rocksdb.advice.facts import Facts, FamilyFacts
    from kstoolkit.rocksdb.files.summary import Summary


_WIKI = "https://github.com/facebook/rocksdb/wiki"

MOST_SPACE_AMPLIFICATION = 1.5
"""Leveled stores stay near 1.1 with dynamic level sizes (RocksDB's wiki, Leveled Compaction)."""

LEAST_BYTES = 1 << 20
LEAST_DELETIONS = 1_000
MOST_TOMBSTONES = 0.25
LEAST_FILES = 50
SMALL_FILE_BYTES = 2 << 20
MOST_OF_LIMIT = 0.5


def space_amplification(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether the files hold far more than the rows that are alive."""
    wide = [each for each in facts.families if may_be_wide(each.summary)]
    found = [_too_wide(each, each.live_rows) for each in wide if each.live_rows is not None]
    untold = next((each.why_not_counted for each in wide if each.live_rows is None), None)
    return Unjudged(untold) if untold and not any(found) else [each for each in found if each]


def may_be_wide(summary: Summary) -> bool:
    """Return whether the files may hold too much: RocksDB's estimate leaves that open.

    It takes each file above the last run for new versions of what is below, so that a store of
    several runs looks wide though no row was ever written twice.
    """
    live = summary.estimated_live_bytes
    size = summary.sst_bytes
    return bool(live) and size >= LEAST_BYTES and size > MOST_SPACE_AMPLIFICATION * (live or 0)


def _too_wide(family: FamilyFacts, live_rows: int) -> Advice | None:
    summary, profile = family.summary, family.profile
    if summary.num_entries <= MOST_SPACE_AMPLIFICATION * live_rows:
        return None
    universal = profile is not None and profile.compaction_style == "universal"
    keep_up = "max_background_jobs, level0_file_num_compaction_trigger"
    names = ("sst_bytes", "num_entries", "compaction_style")
    return Advice(
        rule="space amplification",
        symptom=f"the files hold {format_count(summary.num_entries)} entries, of which "
        f"{format_count(live_rows)} are alive",
        evidence=(
            *(each for each in summary.figures() if each.name in names and each.value is not None),
            Figure("live_rows", live_rows, Source.STORE),
        ),
        option="universal_max_size_amplification_percent" if universal else keep_up,
        direction="lower, or take the level style" if universal else "let compactions keep up",
        effect="overwritten and deleted rows leave the disk sooner",
        cost="more is rewritten: write amplification rises",
        link=f"{_WIKI}/{'Universal' if universal else 'Leveled'}-Compaction",
        column_family=family.name,
    )


def tombstones(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether many entries are deletions, which scans have to step over."""
    return [
        Advice(
            rule="tombstone density",
            symptom=f"{each.summary.tombstone_density:.0%} of the entries are tombstones",
            evidence=tuple(
                figure
                for figure in each.summary.figures()
                if figure.name in {"num_deletions", "num_entries", "tombstone_density"}
            ),
            option="compact-on-deletion collector",
            direction="turn on; or compact the range once; or a store a window, dropped whole",
            effect="scans and seeks no longer step over rows that are gone",
            cost="the files with tombstones are rewritten",
            link=f"{_WIKI}/Implement-Queue-Service-Using-RocksDB",
            column_family=each.name,
        )
        for each in facts.families
        if each.summary.num_deletions >= LEAST_DELETIONS
        and (each.summary.tombstone_density or 0) > MOST_TOMBSTONES
    ]


def small_files(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether the store is cut into many files, far smaller than they need to be."""
    return [_cut_small(each) for each in facts.families if _is_cut_small(each)]


def _is_cut_small(family: FamilyFacts) -> bool:
    number = len(family.ssts)
    return number >= LEAST_FILES and family.summary.sst_bytes < SMALL_FILE_BYTES * number


def _cut_small(family: FamilyFacts) -> Advice:
    number = len(family.ssts)
    mean_bytes = family.summary.sst_bytes // number
    target = None if family.profile is None else family.profile.target_file_size_base
    told = [] if target is None else [Figure("target_file_size_base", target, Source.OPTIONS)]
    return Advice(
        rule="too many small files",
        symptom=f"{format_count(number)} files have a mean of {format_bytes(mean_bytes)}",
        evidence=(
            Figure("num_files", number, Source.STORE),
            Figure("mean_file_bytes", mean_bytes, Source.STORE),
            *told,
        ),
        option="target_file_size_base, write_buffer_size",
        direction="raise",
        effect="fewer files: less memory for their readers, fewer open files, faster opening",
        cost="a compaction rewrites more at once",
        link=f"{_WIKI}/RocksDB-Tuning-Guide",
        column_family=family.name,
    )


def open_files(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether the files that RocksDB keeps open near what the process may open."""
    profiles = [each.profile for each in facts.families if each.profile is not None]
    if not profiles or profiles[0].max_open_files is None:
        return Unjudged("no OPTIONS file tells max_open_files")
    most = profiles[0].max_open_files
    files = sum(len(each.ssts) for each in facts.families)
    opened = (files if most < 0 else min(files, most)) * facts.instances
    if opened <= MOST_OF_LIMIT * facts.open_files_limit:
        return []
    return [
        Advice(
            rule="too many open files",
            symptom=(
                f"{format_count(opened)} files are open once all have been read, "
                f"in {counted(facts.instances, 'such stores')}"
            ),
            evidence=(
                Figure("num_files", files, Source.STORE),
                Figure("max_open_files", most, Source.OPTIONS),
                Figure("open_files_limit", facts.open_files_limit, facts.limit_source),
                Figure("instances", facts.instances, Source.GIVEN),
            ),
            option="max_open_files",
            direction="a number that fits; or raise target_file_size_base, or the system's limit",
            effect="no 'Too many open files' when the store grows",
            cost="files that are not open are opened again when they are read",
            link=f"{_WIKI}/RocksDB-Tuning-Guide#general-options",
        )
    ]
