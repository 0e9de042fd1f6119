"""How many different items users had, in runs of Spark's, from sources of every kind."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

import kstoolkit as kst
from kstoolkit.cli import main
from kstoolkit.errors import ColumnError, ConfigurationError
from tests.kafka.clients import make_topic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstoolkit.kafka.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

START = 20_500 * 86_400
RULES = (kst.Distinct("ip", "1 hour", 2), kst.Distinct("ip", "1 day", 2))
HOURS = 60


def rows(seed: int = 1) -> list[dict[str, Any]]:
    """Sixty people with one to three addresses each; of 'stolen' there are ninety for an hour.

    'busy' does as much from one address. Some events have none.
    """
    draw = random.Random(seed)
    told: list[dict[str, Any]] = []
    for user in range(60):
        home = [f"10.0.{user}.{each}" for each in range(draw.randint(1, 3))]
        for hour in range(HOURS):
            for _ in range(draw.randint(0, 4)):
                ip = draw.choice([*home, None])
                at = START + hour * 3600 + draw.randrange(3600)
                who, what = f"user {user}", draw.choice(["read", "write"])
                told.append({"time": at, "user": who, "action": what, "ip": ip})
    for number in range(90):
        at = START + 50 * 3600 + number * 30
        told.append({"time": at, "user": "stolen", "action": "read", "ip": f"9.9.{number}.1"})
        told.append({"time": at, "user": "busy", "action": "read", "ip": "9.9.9.9"})
    for who in ("stolen", "busy"):
        for hour in range(50):
            at = START + hour * 3600
            told.append({"time": at, "user": who, "action": "read", "ip": "10.9.9.9"})
    return sorted(told, key=lambda row: row["time"])


def write(folder: Path, form: str, told: Sequence[dict[str, Any]], files: int = 3) -> Path:
    folder.mkdir()
    size = -(-len(told) // files)
    for number in range(files):
        part, place = told[number * size :][:size], folder / f"{number}.{form}"
        if form == "json":
            place.write_text("".join(json.dumps(row) + "\n" for row in part))
        elif form == "csv":
            pa_csv.write_csv(pa.Table.from_pylist(part), place)
        else:
            pq.write_table(pa.Table.from_pylist(part), place)
    return folder


def found(run: kst.Run) -> dict[tuple[str, str, int], float]:
    facts = [each for each in run.findings if each.kind == "Distinct"]
    return {(f.rule, f.user, f.count): round(f.log10_probability or 0, 9) for f in facts}


def counted(source: Any, out: Path, buckets: int = 4, **options: Any) -> kst.Run:
    cascade = kst.Cascade("1 hour", "1 day")
    pipeline = kst.Pipeline(source=source, cascade=cascade, rules=RULES, buckets=buckets)
    return pipeline.run(out, progress=False, **options)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> kst.Run:
    folder = tmp_path_factory.mktemp("distinct")
    source = files(write(folder / "in", "json", rows()))
    return counted(source, folder / "out")


def files(path: Path, **options: Any) -> Any:
    named = {"event_time": "time", "user": "user", "action": "action"} | options
    return kst.files(str(path), **named)


def test_who_has_many_is_found_and_who_does_much_is_not(right: kst.Run) -> None:
    hours = [each for each in right.findings if each.window == "1 hour"]
    assert [each.user for each in hours if each.count > 20] == ["stolen"]
    (stolen,) = (each for each in hours if each.user == "stolen")
    assert stolen.count == pytest.approx(91, rel=0.2)
    assert stolen.what == "different ip"
    assert "different “ip” between" in stolen.sentence
    assert "it usually has" in stolen.sentence
    assert stolen.other_levels == {}  # those have counts of events
    assert not [each for each in right.findings if each.user == "busy"]
    assert len(found(right)) < 8


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_of_every_format_tell_the_same(right: kst.Run, tmp_path: Path, form: str) -> None:
    source = files(write(tmp_path / "in", form, rows()))
    assert found(counted(source, tmp_path / "out")) == found(right)


@pytest.mark.parametrize("buckets", [1, 16])
def test_batches_and_buckets_make_no_difference(
    right: kst.Run, tmp_path: Path, buckets: int
) -> None:
    told = rows()
    random.Random(2).shuffle(told)
    source = files(write(tmp_path / "in", "json", told, files=7))
    run = counted(source, tmp_path / "out", buckets, max_files_per_batch=2)
    assert found(run) == found(right)


def test_expressions_and_parts_beside_tell_the_same(right: kst.Run, tmp_path: Path) -> None:
    source = files(write(tmp_path / "in", "json", rows()), user="trim(user)")
    assert found(counted(source, tmp_path / "out")) == found(right)
    source = files(tmp_path / "in", action=["action", "user AS who"])
    run = counted(source, tmp_path / "parts")
    assert found(run) == found(right)
    assert run.findings.to_pandas()["action"].isna().all()


def test_a_dataframe_tells_the_same(right: kst.Run, tmp_path: Path, spark: SparkSession) -> None:
    df = spark.read.json(str(write(tmp_path / "in", "json", rows())))
    source = kst.frame(df, event_time="time", user="user", action="action")
    assert found(counted(source, tmp_path / "out")) == found(right)


@pytest.mark.kafka
def test_a_topic_tells_the_same(right: kst.Run, tmp_path: Path, broker: Broker) -> None:
    make_topic(broker, "distinct", 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for row in rows():
        producer.produce("distinct", json.dumps(row).encode(), key=row["user"])
    assert producer.flush(90) == 0
    named: dict[str, Any] = {"event_time": "time", "action": "action", "starting": "earliest"}
    for user in ("user", "trim(user)"):
        source = kst.kafka_topic(f"kafka://{broker.bootstrap}/distinct", user=user, **named)
        assert found(counted(source, tmp_path / user)) == found(right)


def test_a_run_that_goes_on_tells_the_same_at_its_end(right: kst.Run, tmp_path: Path) -> None:
    told = rows()
    third = len(told) // 3
    write(tmp_path / "in", "json", told[:third], 1)
    for number, begin in enumerate((third, 2 * third)):
        counted(files(tmp_path / "in"), tmp_path / "out")
        part = told[begin : None if number else begin + third]
        lines = "".join(json.dumps(row) + "\n" for row in part)
        (tmp_path / "in" / f"more-{number}.json").write_text(lines)
    assert found(counted(files(tmp_path / "in"), tmp_path / "out")) == found(right)


def test_whatever_is_in_an_item_the_event_counts(tmp_path: Path, spark: SparkSession) -> None:
    """Bytes that are no text, in CSV and a DataFrame; lists in JSON; names of other case."""
    rules = (kst.Distinct("ip", "1 hour"), kst.Distinct("IP", "1 hour"))
    lines = [b"time,user,action,ip,IP"]
    lines += [
        b"%d,user,read,\xff%d\x1a,%d" % (START + number, number, number) for number in range(50)
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_bytes(b"\n".join(lines))
    as_json = [
        {"time": START + n, "user": "user", "action": "read", "ip": [n], "IP": {}}
        for n in range(50)
    ]
    write(tmp_path / "json", "json", as_json, 1)
    spark.conf.set("spark.sql.caseSensitive", "true")
    df = spark.range(50).selectExpr(
        f"{START} + id AS time",
        "'user' AS user",
        "'read' AS action",
        "id AS IP",
        "cast(unhex('FF') AS string) AS ip",
    )
    try:
        named: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}
        for number, source in enumerate(
            (files(tmp_path / "in"), files(tmp_path / "json"), kst.frame(df, **named))
        ):
            pipeline = kst.Pipeline(source=source, cascade=kst.Cascade("1 hour"), rules=rules)
            run = pipeline.run(tmp_path / f"out-{number}", progress=False)
            assert run.summary().events == 50
            assert len(run.dead_letters) == 0
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_the_story_of_many_items_has_no_range_of_events(right: kst.Run) -> None:
    (stolen,) = (e for e in right.findings if (e.user, e.window) == ("stolen", "1 hour"))
    for told in (right.story(stolen), right.history("stolen")):
        assert all(each.expected_low is None for each in told.levels)
    page = kst.Report("items").add(right).html()
    every = re.findall(r"<article.*?</article>", page, re.DOTALL)
    (card,) = (each for each in every if "<bdi>stolen</bdi>" in each)
    assert 'class="expected"' not in card
    assert card.count('"high":null') == 2


def test_a_rule_is_given_to_a_run_whose_first_files_lack_the_column(tmp_path: Path) -> None:
    told = rows()
    early = [
        {k: v for k, v in row.items() if k != "ip"} for row in told if row["time"] < START + 36_000
    ]
    write(tmp_path / "in", "csv", early, 1)
    plain = kst.Pipeline(
        source=files(tmp_path / "in"), cascade=kst.Cascade("1 hour", "1 day"), buckets=4
    )
    plain.run(tmp_path / "out", progress=False)
    late = [row for row in told if row["time"] >= START + 36_000]
    pa_csv.write_csv(pa.Table.from_pylist(late), tmp_path / "in" / "late.csv")
    run = counted(files(tmp_path / "in"), tmp_path / "out")
    assert run.summary().events == len(told)
    assert ("stolen", "1 hour") in {(each.user, each.window) for each in run.findings}


def test_a_column_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    source = files(
        write(
            tmp_path / "in", "csv", [{k: v for k, v in row.items() if k != "ip"} for row in rows()]
        )
    )
    with pytest.raises(ColumnError, match="'ip'"):
        counted(source, tmp_path / "out")


def test_counts_that_are_there_have_no_items(right: kst.Run) -> None:
    with pytest.raises(ConfigurationError, match=r"looks at items, and counts have none"):
        kst.find(right.folder.path, RULES)


def test_the_command_line_takes_it_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "in", "json", rows())
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nkind = "Distinct"\nitem = "ip"\nwindow = "1 hour"\n'
    )
    given = ["--event-time", "time", "--user", "user", "--action", "action"]
    where = ["--out", str(tmp_path / "out"), "--rules", str(tmp_path / "rules.toml")]
    assert main(["run", str(source), *given, *where, "--windows", "1 hour"]) == 0
    capsys.readouterr()
    assert main(["findings", str(tmp_path / "out"), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "stolen" in {row["user"] for row in told}
    assert {row["rule"] for row in told} == {"Distinct ip 1 hour, 5 false alarms a day"}
