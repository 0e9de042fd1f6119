"""Commands that read what a run left, look after it, or bring events: none of them starts Spark.

``findings``, ``users``, ``counts``, ``summary``, ``report``, ``find``, ``what-if``, ``evaluate`` ·
``compact``, ``doctor`` · ``simulate``, ``data fetch``.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli import options, terminal
from kstoolkit.cli.options import Format, argument, by_given, given, optional, required, switch
from kstoolkit.cli.stores import moment_given
from kstoolkit.cli.terminal import as_notes, note, print_json, print_table, say, tell
from kstoolkit.environment import doctor as diagnosed
from kstoolkit.errors import (
    ConfigurationError,
    InputError,
    LargeReportWarning,
    LimitedResultWarning,
    guessed,
)
from kstoolkit.markup import shortened
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from kstoolkit.findings.finding import Findings
    from kstoolkit.pipeline.run import Run

_ROWS_AT_A_TIME = 50_000
_REAL_SAMPLES = ("wikiticker",)

Packing = StrEnum("Packing", ["gzip", "zstd", "none"])


def counts(
    out: str = options.OUT,
    *,
    window: str | None = optional(
        "WINDOW", "Which of the run's windows: '1 hour', or '5 minutes every 1 minute'. Required."
    ),
    user: str | None = optional("USER", "Only this user's.", "all users"),
    by: list[str] | None = options.BY,
    total: bool = options.SUMS,
    where: list[str] | None = options.WHERE,
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON,
    as_csv: bool = switch("--csv", "Print everything as CSV with a header, exactly as it is."),
    limit: int = typer.Option(
        20, min=1, metavar="N", help="How many to show; --json and --csv print all of them anyway."
    ),
) -> None:
    """Print the counts of a window, in order of time.

    Of a run that goes on, they are those that were flushed by now; long windows are flushed less
    often, ten minutes apart at the most: as of when, is said beside them.
    The fields of --json and --csv: window_start_ms and window_end_ms (epoch ms UTC; the end is
    outside, but a session's is its last event), user, action, count. Where an action has several
    parts, these stand in its place under their names; with --by, those alone that it names, and
    with --total none.
    """
    _check_one_format("--csv", are_both=as_json and as_csv)
    run = opened(out, kafka_config)
    if window is None:
        message = "Which window? --window is missing."
        windows = ", ".join(repr(label) for label in run.settings.windows)
        raise ConfigurationError(message, hint=f"This run has: {windows}.")
    chosen = run.window(window)
    chosen_by, chosen_where = by_given(by, total=total), options.where_given(where)
    with as_notes(LimitedResultWarning, "Note: "):
        found = run.counts(chosen, user=user, by=chosen_by, where=chosen_where, limit=None)
    fields = ["window_start_ms", "window_end_ms", *found.columns[2:]]
    if as_json:
        print_json(_rows(found, fields))
    elif as_csv:
        terminal.print_csv(fields, _rows(found, fields))
    elif found.empty:
        whose = "" if user is None else f" of {user!r}"
        note(f"No counts{whose} in windows of {chosen.label}.")
    else:
        _show_counts(found, limit, with_ends=chosen.size_ms < 0)
    say_as_of(run, chosen.label)


def say_as_of(run: Run, window: str | None = None) -> None:
    """Say which windows lack what waits for a flush, if any do."""
    from kstoolkit.pipeline.batches import as_of_text, newest_batch  # noqa: PLC0415 - loads Spark

    newest = newest_batch(run.folder)
    for each, as_of_ms in ({} if newest is None else newest.as_of_ms).items():
        if window in {None, each}:
            note(f"Counts of {each} as of {as_of_text(as_of_ms)}.")


def findings(
    out: str = options.OUT,
    *,
    user: str | None = options.USER,
    action: str | None = options.ACTION,
    since: str | None = options.SINCE,
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON,
    limit: int = options.LIMIT,
) -> None:
    """Print what was found: the evidence of incidents.

    The fields of --json: rule, user, action, window, window_start_ms (epoch ms UTC), count,
    expected_low, expected_high, probability, sentence, and more. Null is unknown.
    """
    run = opened(out, kafka_config)
    every = run.findings
    found = options.choice_given(user, action, moment_given(since)).of(every)
    none = f"None of {counted(len(every), 'findings')}." if len(every) else None
    none = none or nothing_found(run.summary().unjudged)
    _print_findings(found, none, as_json=as_json, limit=limit)


def find(
    out: str = argument("OUT", "A run's output folder, or a changelog."),
    rules: str | None = options.RULES,
    as_json: bool = options.AS_JSON,
    limit: int = options.LIMIT,
) -> None:
    """Judge the counts by other rules.

    Nothing is counted again; the findings are printed and not kept. The fields of --json
    are those of findings.
    """
    from kstoolkit.findings.rulefiles import load_rules  # noqa: PLC0415
    from kstoolkit.findings.rules import DEFAULT_RULES  # noqa: PLC0415
    from kstoolkit.pipeline.whatif import find as judged  # noqa: PLC0415

    chosen = DEFAULT_RULES if rules is None else load_rules(rules) or DEFAULT_RULES
    found = judged(out, chosen)
    _print_findings(found, nothing_found(found.unjudged or 0), as_json=as_json, limit=limit)


def what_if(
    out: str = options.OUT,
    *,
    rules: str = required("FILE", "A TOML file of the rules to look for instead."),
    since: str | None = optional("T", "Only incidents that end after this moment.", "all"),
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON_OBJECT,
    limit: int = options.LIMIT,
) -> None:
    """Say which incidents other rules would gain and lose.

    They judge the counts that there are. The fields of --json: since_ms, until_ms (epoch ms UTC),
    days; before and after of users, incidents, findings, learnt (findings of rules that learn) and
    budget; some of them a day; kept (how many), users_gained, users_lost, gained and lost.
    """
    from kstoolkit.pipeline.whatif import what_if as asked  # noqa: PLC0415 - loads pandas

    found = asked(opened(out, kafka_config), rules, since=moment_given(since))
    tell(found, as_json=as_json)
    for name, some in () if as_json else (("gained", found.gained), ("lost", found.lost)):
        for each in some.top(limit):
            marked = "" if each.mark is None else f" ({each.mark})"
            say(f"{name}{marked}: {each.sentence}")
        announce(min(limit, len(some)), len(some), name)


def evaluate(
    out: str = options.OUT,
    labels: str | None = argument(
        "LABELS",
        "JSON lines as the simulator's labels.json, or a .csv file.  [default: the marks]",
        needed=False,
    ),
    *,
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Say how good findings and ranking are, by labels.

    A label names a user, and if they are known a kind, since, until (ISO 8601) and an action. What
    is found of nobody labelled, or of the kinds nightly-job, service and known, is a false alarm.
    A delay is from a label's since to the end of the window that told. The fields of --json:
    findings and users, each with kinds, alarms_a_day, average_precision, precision_at, curve, and
    more. Null is unknown.
    """
    from kstoolkit.findings import evaluation  # noqa: PLC0415 - loads Arrow

    run = opened(out, kafka_config)
    finest = min(run.settings.cascade.windows, key=lambda window: window.size_ms)
    first_ms, last_ms = run.changelog.span_ms(finest.size_ms) or (0, 0)
    judged = {"since": first_ms, "until": last_ms + finest.size_ms}
    known = run.marks.labels() if labels is None else labels
    found = evaluation.evaluate(run.findings, known, **judged)
    ranked = evaluation.evaluate(run.users(), known)
    if as_json:
        print_json([{"findings": found.to_dict(), "users": ranked.to_dict()}])
        return
    rows = [[k.kind, str(k.labels), str(k.found), *evaluation.told(k)] for k in found.kinds]
    if rows:
        print_table(["kind", "labels", "found", "recall", "delay"], rows, right="labels")
    for line in evaluation.alarms_in_words(found):
        say(line)
    say(f"Users by findings: {evaluation.ranking_in_words(found)}")
    say(f"Users by score: {evaluation.ranking_in_words(ranked)}")


def users(
    out: str = options.OUT,
    *,
    by: list[str] | None = options.BY,
    total: bool = options.SUMS,
    since: str | None = options.SINCE,
    until: str | None = optional("T", "Only windows that begin before this moment.", "all"),
    exempt: list[str] | None = optional(
        "USER",
        "Without this user, and compared with others alone; several times for several.",
        "none",
    ),
    group: str | None = optional(
        "REGEX",
        "Compare users with those alone in whose names this matches the same text.",
        "all are compared",
    ),
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON,
    limit: int = options.LIMIT,
) -> None:
    """Print every user with a score, most abnormal first.

    The score is over all windows and actions; with --by or --total, how unusual a user's mix is, is
    told of these sums. The fields of --json: user, score, reason, and the figures behind it.
    """
    run = opened(out, kafka_config)
    asked: dict[str, Any] = {"since": moment_given(since), "until": moment_given(until)}
    asked |= {"exempt": exempt or (), "group": group}
    with as_notes(LimitedResultWarning, "Note: "):
        ranked = run.users(by=by_given(by, total=total), **asked, most=None if as_json else limit)
    say_as_of(run)
    if as_json:
        told = ranked.astype(object).where(ranked.notna(), None)  # or it would be NaN, no JSON
        print_json(_rows(told, list(told.columns)))
        return
    if not ranked.attrs["users"]:
        say("Nobody did anything that this was asked for.")
        return
    cells = [[u, f"{s:.1f}", why] for u, s, why in ranked[["user", "score", "reason"]].to_numpy()]
    print_table(["user", "score", "why"], cells, right="score")
    announce(len(ranked), ranked.attrs["users"], "users")


def summary(out: str = options.OUT, as_json: bool = options.AS_JSON_OBJECT) -> None:
    """Print a run in figures: events, dead letters, speed.

    The fields of --json: events, late (by window), dead_letters (reason to count), batches, and
    more. Null is unknown.
    """
    tell(opened(out).summary(), as_json=as_json)


def dead_letters(
    out: str = options.OUT,
    *,
    reason: str | None = optional("REASON", "Only those of a reason: no_user, say.", "all"),
    raw: bool = switch("--raw", "Write the records out again, as they came, and nothing else."),
    as_json: bool = options.AS_JSON,
    limit: int = options.LIMIT,
) -> None:
    """Print what could not be counted, and why.

    How many records there are of each reason, and some that differ. The fields of --json: batch,
    reason, raw, file, detail (null if there is no more to say). Of a text beyond 65,536 characters
    the start is kept; a file that is a dead letter as a whole has none.
    """
    from kstoolkit.pipeline.run import iter_dead_letters, sampled_letters  # noqa: PLC0415 - loads pandas

    _check_one_format("--raw", are_both=as_json and raw)
    run = opened(out)
    counts = _of_reason(run.summary().dead_letters, reason)
    each = iter_dead_letters(run.folder.path, reason)
    if as_json:
        print_json({"batch": row["batch"], **row} for dead in each for row in dead.to_pylist())
    elif raw:
        _write_out(text for dead in each for text in dead.column("raw").to_pylist())
    elif not counts:
        of_it = ": every record was read and counted" if reason is None else f" of {reason}"
        note(f"No dead letters{of_it}.")
    else:
        _show_letters(counts, sampled_letters(run.folder.path, counts, limit), limit)


def report(
    things: list[str] = argument(
        "THING...",
        "A run's output folder, a store, a changelog, a replica, a folder of stores, or a file "
        "with what compare-profiles --json printed.",
    ),
    html: str | None = optional(
        "FILE", "Where to write it.", "report.html in a run's folder; else required"
    ),
    title: str | None = optional("TEXT", "Its title.", "what it is about"),
    compare: bool = switch("--compare", "Of two stores, show which rows differ."),
    kafka_config: str | None = options.KAFKA_CONFIG,
    _scratch: str | None = options.SCRATCH,
) -> None:
    """Write a report: one HTML file that needs no network."""
    from kstoolkit.report.report import report_on  # noqa: PLC0415 - draws: only when asked

    with as_notes(LargeReportWarning, "Note: "):
        settings = options.settings_in(kafka_config)
        path = report_on(things, html=html, title=title, compare=compare, options=settings)
    say(f"The report is in {path}.")


def _of_reason(counts: dict[str, int], reason: str | None) -> dict[str, int]:
    """Return how many dead letters there are of the chosen reasons, the most frequent first."""
    from kstoolkit.events.event import REASONS  # noqa: PLC0415 - loads Arrow

    if reason is not None and reason not in REASONS:
        message = f"--reason {reason!r} is none."
        known = ", ".join(REASONS)
        raise ConfigurationError(message, hint=f"{guessed(reason, REASONS)}There are: {known}.")
    found = {each: n for each, n in counts.items() if n and reason in {None, each}}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _write_out(texts: Iterable[str]) -> None:
    """Print records as they came, a line each, and say beside them what is not among them."""
    from kstoolkit.events.event import is_cut  # noqa: PLC0415 - loads Arrow

    left_out = {"of whole files there is no text": 0, "of texts as long, only the start is kept": 0}
    of_files, too_long = left_out

    def whole() -> Iterator[str]:
        for text in texts:
            if text and not is_cut(text):
                yield text
            else:
                left_out[too_long if text else of_files] += 1

    terminal.print_texts(whole())
    for why, number in left_out.items():
        if number:
            note(f"{counted(number, 'dead letters')} left out: {why}.")


def _show_letters(counts: dict[str, int], samples: Sequence[Mapping[str, Any]], limit: int) -> None:
    from kstoolkit.events.event import REASONS  # noqa: PLC0415

    told = [[each, format_count(n), REASONS.get(each, "")] for each, n in counts.items()]
    print_table(["reason", "records", "meaning"], told, right="records")
    say()
    cells = []
    for each in samples:
        record = shortened(each["raw"] or each["detail"] or "", 200)
        cells.append([format_count(each["batch"]), each["reason"], each["file"] or "", record])
    print_table(["batch", "reason", "file", "record"], cells, right="batch")
    more = "; --limit N more" if len(samples) == limit else ""
    how = f"each differs from the others; --json prints all{more}"
    announce(len(samples), sum(counts.values()), "dead letters", how)


def nothing_found(unjudged: int) -> str:
    """Say that nothing was found, and of how many counts that means little."""
    if not unjudged:
        return "Nothing was found: no count breaks a rule."
    from kstoolkit.findings.finding import NOT_KNOWN  # noqa: PLC0415 - loads Arrow

    return f"Nothing was found; {counted(unjudged, 'counts')} could not be judged: {NOT_KNOWN}."


def _print_findings(found: Findings, none: str, *, as_json: bool, limit: int) -> None:
    if as_json:
        starts = range(0, len(found), _ROWS_AT_A_TIME)
        parts = (found[start : start + _ROWS_AT_A_TIME] for start in starts)
        print_json(row for part in parts for row in part.to_json_rows())
    elif not len(found):
        note(none)
    else:
        for number, finding in enumerate(found.top(limit), start=1):
            say(f"{number:>2}. {finding.sentence}")
        announce(min(limit, len(found)), len(found), "findings")


def opened(out: str, kafka_config: str | None = None) -> Run:
    """Open a run's output folder."""
    from kstoolkit.pipeline.run import load_run  # noqa: PLC0415 - loads pandas

    return load_run(out, options=options.settings_in(kafka_config))


def _check_one_format(flag: str, *, are_both: bool) -> None:
    if are_both:
        message = f"--json and {flag} can't both be printed."
        raise ConfigurationError(message, hint="Give one of them.")


def _rows(frame: pd.DataFrame, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield rows for programs, some at a time: its columns by these names, moments in epoch ms."""
    for start in range(0, len(frame), _ROWS_AT_A_TIME):
        part = frame.iloc[start : start + _ROWS_AT_A_TIME]
        columns = [_plain(part[name]) for name in part.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _plain(column: pd.Series[Any]) -> list[Any]:
    if column.dtype.kind == "M":
        return column.to_numpy("datetime64[ms]").astype("int64").tolist()
    if column.dtype.kind == "O" and column.hasnans:  # a part that is null
        return column.where(column.notna(), None).tolist()
    return column.tolist()


def _show_counts(found: pd.DataFrame, limit: int, *, with_ends: bool) -> None:
    top = found.head(limit)
    times = {"window start (UTC)": top["window_start"]}
    times |= {"last event (UTC)": top["window_end"]} if with_ends else {}
    parts = list(found.columns[3:-1])
    texts = [top[name].where(top[name].notna(), "none") for name in parts]
    figures = map(format_count, top["count"])
    texts = [each.dt.strftime("%Y-%m-%d %H:%M:%S") for each in times.values()] + texts
    cells = [list(row) for row in zip(*texts, figures, top["user"], strict=True)]
    print_table([*times, *parts, "count", "user"], cells, right="count")
    announce(len(top), len(found), "counts", "--json and --csv print all; --limit N more")


def announce(
    shown: int, there: int, what: str, how: str = "--json prints all; --limit N more"
) -> None:
    """Say that not all are shown, and how all can be."""
    if shown < there:
        say(f"{format_count(shown)} of {format_count(there)} {what} are shown; {how}.")


def compact(
    out: str = options.OUT,
    *,
    expire: str | None = options.EXPIRE,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Fold what a run's batches left into few files.

    What it tells stays the same; of counts just the latest values are kept. A run may go on
    meanwhile, and folds as it goes; its newest batch is left alone. The fields of --json:
    batches_folded, records_before, records_after, bytes_before, bytes_after; and beside, with the
    same of findings, dead_letters and statistics.
    """
    from kstoolkit.pipeline.tidying import compact_run  # noqa: PLC0415 - loads Arrow

    done = compact_run(out, options.lengths_given("--expire", expire))
    if as_json:
        told = {kind: asdict(result) for kind, result in done.items()}
        print_json([told.pop("changelog", {}) | {"beside": told}])
        return
    for kind, result in done.items():
        if result.batches_folded:
            say(f"{kind.replace('_', ' ')}: {result}")
    if not any(result.batches_folded for result in done.values()):
        say("Nothing to fold.")


def doctor(as_json: bool = options.AS_JSON_OBJECT) -> None:
    """Say what is missing here, and what mends it.

    Ends with code 1 if something is wrong. The fields of --json: ok, and checks, each with name,
    ok, found, problem and remedy (null where there is none).
    """
    diagnosis = diagnosed()
    tell(diagnosis, as_json=as_json)
    if not diagnosis.ok:
        raise typer.Exit(terminal.FAULT)


def simulate(
    *,
    out: str = typer.Option(
        "simulated",
        metavar="FOLDER",
        help="Where to: the events into FOLDER/events (or FOLDER/sample), labels.json beside them.",
    ),
    sample: bool = switch(
        "--sample", "Make the sample that comes along, byte for byte; it is fixed."
    ),
    events: int | None = optional(
        "N", "Events of ordinary users; abnormal ones come on top.", "100000", min=1
    ),
    users: int | None = optional("N", "Ordinary users.", "1000", min=1),
    duration: str | None = optional("DURATION", "How long.", "2 days"),
    world: list[str] | None = optional(
        "NAME",
        "By which law ordinary users act, repeated for several: gamma, lognormal, pareto, mixed, "
        "lasting, sittings; week, surge, newcomers, jobs, service.",
        "the simulator's own",
    ),
    seed: int | None = optional(
        "N", "Another seed, other events; the same one, the same.", "0", min=0
    ),
    file_format: Format | None = optional(None, "How to write them.", "json", flag="--format"),
    compression: Packing | None = optional(None, "What to compress them with.", "gzip"),
    files: int | None = optional("N", "How many files.", "1", min=1),
) -> None:
    """Make events with abnormal users among them, and labels.

    Columns: time, user, action. The labels say who is abnormal, how and when: bursts,
    ramps, low-and-slow robots, floods by new users, shared accounts.
    """
    from kstoolkit.events import sample as fixed  # noqa: PLC0415 - loads Arrow
    from kstoolkit.events.simulator import simulate as simulated  # noqa: PLC0415

    what = given(event_count=events, users=users, duration=duration, seed=seed, world=world)
    how = given(files=files, format=None if file_format is None else file_format.value)
    if compression is not None:
        how["compression"] = None if compression is Packing.none else compression.value
    if sample and what | how:
        message = "--sample makes the sample that comes along, which is fixed."
        raise ConfigurationError(message, hint="Leave out the options that change what is made.")
    make = fixed.write_sample if sample else simulated(**what).write
    written = make(out if sample else f"{out}/events", **how)
    folder, labels = written[0].parent, written[-1]
    say(f"Events in {folder}: {format_count(len(written) - 1)} file(s); labels in {labels}.")
    _propose(folder, action="action")


def fetch(
    name: str = argument("NAME", "Which one; there is: wikiticker."),
    to: str | None = optional("FOLDER", "Where to.", "data/NAME"),
) -> None:
    """Download a real sample, and check its sha256.

    wikiticker: 39,244 edits of Wikipedia by 10,531 users on 12 September 2015, 2.3 MiB, as
    published with Apache Druid; CC BY-SA 3.0.
    """
    if name not in _REAL_SAMPLES:
        guess = guessed(name, _REAL_SAMPLES)
        message = f"There is no sample {name!r}."
        raise InputError(message, hint=f"{guess}There is: {', '.join(_REAL_SAMPLES)}.")
    from kstoolkit.events.sample import fetch_wikiticker  # noqa: PLC0415 - loads Arrow

    path = fetch_wikiticker(to or f"data/{name}")
    say(f"The sample is {path}.")
    _propose(path, action="namespace")


def _propose(path: Path, *, action: str) -> None:
    columns = f"--event-time time --user user --action {action}"
    say(f"Count them: kstoolkit run {shlex.quote(str(path))} {columns} --out out/{path.stem}")
