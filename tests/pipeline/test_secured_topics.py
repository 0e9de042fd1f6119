"""Runs on a broker that asks for passwords and certificates: right counts, no secret in sight."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import RunFailed
from kstoolkit.events.topics import _CONFIG_FILE
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.connection import for_java
from kstoolkit.kafka.reading import last_values
from kstoolkit.pipeline.session import _scratch_folder, session_of_run, streaming_conf
from tests.cli.commands import COLUMNS, given, harmless, rows
from tests.pipeline.harness import check_exact, events, write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kafka.securedbroker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("spark")]

CASCADE = kst.Cascade("1 minute", "1 hour")
NAMED: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}
EVENTS = events(300)


@pytest.fixture(scope="module")
def lines(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events, in a file and in the topic ``actions``."""
    path = write_lines(tmp_path_factory.mktemp("events") / "events.json", EVENTS)
    topic, options = f"kafka://{secured.sasl}/actions", secured.sasl_options
    sent = kst.produce(path, topic, event_time="time", user="user", options=options, progress=False)
    assert sent.records == len(EVENTS)
    return path


@pytest.fixture(autouse=True)
def nothing_slips_out(
    secured: SecuredBroker,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Iterator[None]:
    """See that no file, no line and no log of Spark holds a secret when a test is over."""
    yield
    told = "".join(capfd.readouterr()) + caplog.text
    written = [each for each in tmp_path.rglob("*") if each.is_file() and each.suffix != ".own"]
    for secret in secrets_of(secured):
        assert secret not in told
        for path in (*written, _scratch_folder() / "spark.log"):
            assert secret.encode() not in path.read_bytes(), path


def secrets_of(secured: SecuredBroker) -> list[str]:
    """Return the password, and a line of the client's key in each of its forms."""
    for_spark = for_java(secured.mutual_options)["ssl.keystore.key"]
    return [
        secured.password,
        *(key.splitlines()[2] for key in (secured.key.read_text(), for_spark)),
    ]


def test_a_run_by_password_counts_tells_restores_and_says_where_it_is(
    secured: SecuredBroker, lines: Path, tmp_path: Path
) -> None:
    told: dict[str, Any] = {"bootstrap": secured.sasl, "options": secured.sasl_options}
    source = kst.kafka_topic("actions", **NAMED, **told)
    log = kst.kafka_changelog(f"counts.{tmp_path.name}", partitions=2, **told)
    found = kst.kafka_findings(f"found.{tmp_path.name}", partitions=1, **told)
    pipeline = kst.Pipeline(
        source=source,
        cascade=CASCADE,
        rules=[kst.Ceiling("1 hour", 1)],
        buckets=2,
        changelog=log,
        findings_to=found,
    )

    run = pipeline.run(tmp_path / "out", progress=False)

    check_exact(run, [lines])
    owned = secured.sasl_options | {"bootstrap.servers": secured.sasl}
    loaded = kst.load_run(tmp_path / "out", options=owned)
    first = loaded.counts("1 hour").to_dict("records")[0]
    user, at = str(first["user"]), first["window_start"]
    with kst.WindowStore.restore(log, path=tmp_path / "replica", progress=False) as replica:
        there = replica.get(user, window="1 hour", at=at).counts
    expected = loaded.counts("1 hour", user=user).query("window_start == @at")
    assert dict(there) == dict(zip(expected["action"], expected["count"], strict=True))
    behind = kst.lag(run, over="0 s")
    assert behind.lag_records == 0
    plan = kst.reset(run, to="earliest")
    assert (plan.done, plan.again_records) == (False, len(EVENTS))
    sent = last_values(Cluster(secured.bootstrap), found.address.topic, 1_000)
    findings = [each for each in sent if b'"record": "incident"' not in each]
    assert len(findings) == sum(batch.findings for batch in run.batches()) > 0
    for each in (source, log, found, pipeline, run, behind, plan, run.settings):
        assert secured.password not in repr(each) + str(each)


def test_commands_take_a_certificate_from_a_file_of_settings(
    secured: SecuredBroker, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out = tmp_path / "client.own", tmp_path / "out"
    config.write_text("".join(f"{k}={v}\n" for k, v in secured.mutual_options.items()))
    log = f"kafka://{secured.mutual}/counts.{tmp_path.name}"
    named = ("--windows", "1 minute,1 hour", "--buckets", 2, "--out", out, *COLUMNS)
    by_file = ("--kafka-config", config)
    answers = [
        given("run", f"kafka://{secured.mutual}/actions", *named, "--changelog", log, *by_file),
        given("restore", log, tmp_path / "replica", *by_file),
    ]
    refused = given("lag", out, *by_file)
    assert refused.code == 2
    assert f"add to the settings: bootstrap.servers={secured.mutual}" in refused.err
    with config.open("a") as file:
        file.write(f"bootstrap.servers={secured.mutual}\n")
    answers.append(given("lag", out, "--over", "0 s", "--json", *by_file))
    assert rows(answers[-1].out)[0]["lag_records"] == 0
    monkeypatch.setenv(_CONFIG_FILE, str(config))
    answers.append(given("counts", out, "--window", "1 hour", "--json"))
    assert sum(each["count"] for each in rows(answers[-1].out)) == len(EVENTS)
    answers.append(given("reset", out, "--to", "earliest", "--json"))
    assert rows(answers[-1].out)[0]["again_records"] == len(EVENTS)
    check_exact(kst.load_run(out), [lines])
    assert [each.code for each in answers] == [0] * 5
    for secret in secrets_of(secured):
        assert not [each for each in answers if secret in each.out + each.err]
    assert all(harmless(each.err) for each in answers)


@pytest.mark.usefixtures("lines")
def test_a_password_that_spark_alone_has_wrong_ends_the_run_with_a_sentence(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    options = secured.sasl_options | {"java.sasl.password": f"{secured.password}-not"}
    source = kst.kafka_topic("actions", bootstrap=secured.sasl, options=options, **NAMED)
    with pytest.raises(RunFailed, match=r"SaslAuthenticationException: .*Invalid user") as caught:
        kst.Pipeline(source=source, cascade=CASCADE, buckets=2).run(
            tmp_path / "out", progress=False
        )
    assert "\n" not in caught.value.message
    assert secured.password not in "".join(traceback.format_exception(caught.value))


def test_what_spark_tells_of_a_query_names_no_secret(
    secured: SecuredBroker, spark: SparkSession
) -> None:
    given_options = for_java(secured.sasl_options) | for_java(secured.mutual_options)
    jvm: Any = spark._jvm
    told = jvm.PythonUtils.toScalaMap({f"kafka.{k}": v for k, v in given_options.items()})
    own = session_of_run(spark)
    for name, value in streaming_conf().items():
        own.conf.set(name, value)
    shown = str(own._jsparkSession.sessionState().conf().redactOptions(told).toString())
    assert "kafka.sasl.jaas.config" in shown
    assert [each for each in secrets_of(secured) if each in shown] == []
