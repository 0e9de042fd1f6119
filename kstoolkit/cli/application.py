"""Which commands there are, in the order in which a newcomer needs them."""

from __future__ import annotations

from importlib.metadata import version as version_of

import typer

from kstoolkit.cli import incidents, kafka, lab, measuring, replicas, results, rocksdb, stores
from kstoolkit.cli.checkup import checkup
from kstoolkit.cli.run import run, supervise
from kstoolkit.cli.terminal import ending, say

_CODES = """\b
Exit codes: 0 done, 1 a fault, 2 a mistake in what was given; of supervise and
run --follow also 75: the restarts of an hour are spent, try again later; of
checkup also 3: something is urgent.
"""
_EPILOG = f"""\b
Try it:
  kstoolkit run data/sample --event-time time --user user --action action --out out
  kstoolkit incidents out

{_CODES}"""


def _commands(epilog: str | None = None) -> typer.Typer:
    """Return an empty group of commands with plain help, which any terminal, pipe and log takes."""
    return typer.Typer(
        epilog=epilog,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
    )


app = _commands(_EPILOG)
samples = _commands()
brokers = _commands()


def _show_version(asked: bool) -> None:
    if asked:
        say(f"kstoolkit {version_of('kstoolkit')}")
        raise typer.Exit


@app.callback()
def kstoolkit(
    _version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Count what users do in windows on Spark, find the abnormal ones, and see why."""


@samples.callback()
def real_data() -> None:
    """Get real data to try things on."""


@brokers.callback()
def real_broker() -> None:
    """Run a Kafka broker on this machine."""


app.command("run", epilog=_CODES)(ending(run))
app.command("supervise", epilog=_CODES)(ending(supervise))
for command in (
    incidents.incidents,
    results.findings,
    results.users,
    results.counts,
    results.summary,
    results.report,
    results.find,
    results.evaluate,
    incidents.story,
    incidents.mark,
    incidents.unmark,
    incidents.marks,
    checkup,
    rocksdb.inspect,
    rocksdb.levels,
    rocksdb.memory,
    rocksdb.advice,
    stores.stores,
    stores.rows,
    measuring.diff,
    measuring.growth,
    measuring.export,
    replicas.restore,
    replicas.get,
    results.compact,
    results.simulate,
    kafka.produce,
    kafka.lag,
    kafka.assignment,
    kafka.reset,
    rocksdb.log,
    lab.profile,
):
    app.command(command.__name__)(ending(command))
app.command("dead-letters")(ending(results.dead_letters))
app.command("what-if")(ending(results.what_if))
app.command("compare-profiles")(ending(lab.compare_profiles))
app.command("capacity")(ending(lab.capacity))
app.add_typer(samples, name="data")
samples.command("fetch")(ending(results.fetch))
app.add_typer(brokers, name="broker")
brokers.command("start")(ending(kafka.start))
brokers.command("stop")(ending(kafka.stop))
brokers.command("status")(ending(kafka.status))
app.command("doctor")(ending(results.doctor))
