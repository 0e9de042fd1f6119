from __future__ import annotations

import gzip
import hashlib
import json
import os
import socket
import threading
import zlib
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ConfigurationError, InputError, OutputError
from kstoolkit.events.sample import (
    _BAD_RECORDS,
    _SAMPLE,
    _WIKITICKER_FILE,
    _WIKITICKER_SHA256,
    _WIKITICKER_URL,
    fetch_wikiticker,
    write_sample,
)
from kstoolkit.events.simulator import _ABNORMAL

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
REAL_DATA = Path(os.environ.get("KSTOOLKIT_DATA_DIR", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_sample(folder)
    return folder


def lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


def is_event(line: bytes) -> bool:
    try:
        record = json.loads(line)
        time = datetime.fromisoformat(record["time"])
        sizes_bytes = [len(record[name].encode()) for name in ("user", "action")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    start, end = _SAMPLE.start, _SAMPLE.start + timedelta(milliseconds=_SAMPLE.duration_ms)
    return start <= time < end and max(sizes_bytes) <= 1024


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "sample").iterdir())


def test_the_sample_is_made_again_line_by_line(made: Path) -> None:
    assert names(made) == names(DATA)
    for name in names(made):
        assert lines(made / "sample" / name) == lines(DATA / "sample" / name)
    assert (made / "labels.json").read_bytes() == (DATA / "labels.json").read_bytes()


def test_the_sample_is_made_again_byte_for_byte(made: Path) -> None:
    for name in names(made):
        content = (made / "sample" / name).read_bytes()
        # zlib-ng, which some systems ship in zlib's place, compresses the same content otherwise.
        if "ng" not in zlib.ZLIB_RUNTIME_VERSION:
            assert content == (DATA / "sample" / name).read_bytes()


def test_the_sample_is_small_and_long_enough_for_hourly_findings() -> None:
    paths = [DATA / "README.md", DATA / "labels.json", *(DATA / "sample").iterdir()]
    size_bytes = sum(path.stat().st_size for path in paths)
    assert size_bytes < 2_000_000
    assert _SAMPLE.duration_ms >= 30 * 3_600_000


def test_one_file_of_the_sample_holds_a_bad_record_of_each_kind(made: Path) -> None:
    bad = {
        name: [x for x in lines(made / "sample" / name) if not is_event(x)] for name in names(made)
    }
    assert [len(found) for found in bad.values()] == [0, 0, 0, 0, len(_BAD_RECORDS), 0, 0, 0]


def test_the_other_records_of_the_sample_are_the_simulated_events(made: Path) -> None:
    good = [x for name in names(made) for x in lines(made / "sample" / name) if is_event(x)]
    events = _SAMPLE.events()
    assert len(good) == events.num_rows
    assert [json.loads(x)["user"] for x in good] == events["user"].to_pylist()


def test_a_sample_without_bad_records_has_none(tmp_path: Path) -> None:
    *paths, _ = write_sample(tmp_path, bad_records=False)
    assert all(is_event(line) for path in paths for line in lines(path))


def test_the_sample_has_abnormal_users_of_every_kind() -> None:
    labels = [json.loads(x) for x in (DATA / "labels.json").read_text("utf-8").splitlines()]
    assert {label["kind"] for label in labels} == set(_ABNORMAL)


def test_the_readme_says_what_is_in_the_sample() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    assert "kstoolkit simulate --sample --out data" in readme
    assert f"{_SAMPLE.events().num_rows:,} simulated events" in readme
    assert _WIKITICKER_SHA256 in readme
    for what in [*_BAD_RECORDS, *(f"`{kind}`" for kind in _ABNORMAL)]:
        assert what in readme


def test_the_sample_does_not_mix_with_other_events(tmp_path: Path) -> None:
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "events-099.json").touch()
    with pytest.raises(OutputError, match=r"events-099\.json"):
        write_sample(tmp_path)


CONTENT = b"what the real file would be"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@contextmanager
def server(content: bytes, status: int = 200) -> Iterator[str]:
    """Serve ``content`` at an address on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Keep the terminal quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/{_WIKITICKER_FILE}"
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def dead_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"http://127.0.0.1:{port}/{_WIKITICKER_FILE}"


def test_the_right_bytes_are_kept_with_a_note_on_their_licence(tmp_path: Path) -> None:
    with server(CONTENT) as url:
        path = fetch_wikiticker(tmp_path / "new" / "folder", url=url, sha256=SHA256)
    assert path == tmp_path / "new" / "folder" / _WIKITICKER_FILE
    assert path.read_bytes() == CONTENT
    note = path.with_name("_wikiticker-licence.txt").read_text(encoding="utf-8")
    assert "Attribution-ShareAlike 3.0" in note
    assert "apache/druid" in note


def test_wrong_bytes_are_not_kept_and_both_hashes_are_said(tmp_path: Path) -> None:
    wrong = b"<html>Please log in</html>"
    with server(wrong) as url, pytest.raises(InputError) as caught:
        fetch_wikiticker(tmp_path, url=url, sha256=SHA256)
    assert hashlib.sha256(wrong).hexdigest() in str(caught.value)
    assert SHA256 in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_used_without_asking_again(tmp_path: Path, dead_url: str) -> None:
    (tmp_path / _WIKITICKER_FILE).write_bytes(CONTENT)
    assert fetch_wikiticker(tmp_path, url=dead_url, sha256=SHA256).read_bytes() == CONTENT


def test_a_file_that_is_there_but_wrong_is_replaced(tmp_path: Path) -> None:
    (tmp_path / _WIKITICKER_FILE).write_bytes(CONTENT[:10])
    with server(CONTENT) as url:
        assert fetch_wikiticker(tmp_path, url=url, sha256=SHA256).read_bytes() == CONTENT


def test_without_a_network_it_says_what_to_do_by_hand(tmp_path: Path, dead_url: str) -> None:
    with pytest.raises(InputError) as caught:
        fetch_wikiticker(tmp_path, url=dead_url, sha256=SHA256)
    assert f"Can't download {dead_url}" in caught.value.message
    assert str(tmp_path / _WIKITICKER_FILE) in str(caught.value.hint)
    assert SHA256 in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_file_put_there_by_hand_is_named(tmp_path: Path, dead_url: str) -> None:
    (tmp_path / _WIKITICKER_FILE).write_bytes(b"another file")
    with pytest.raises(InputError, match=hashlib.sha256(b"another file").hexdigest()):
        fetch_wikiticker(tmp_path, url=dead_url, sha256=SHA256)
    assert (tmp_path / _WIKITICKER_FILE).read_bytes() == b"another file"


def test_a_page_that_is_gone_is_said(tmp_path: Path) -> None:
    with server(b"", status=404) as url, pytest.raises(InputError, match="404"):
        fetch_wikiticker(tmp_path, url=url, sha256=SHA256)


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(InputError, match="timed out"):
            fetch_wikiticker(tmp_path, url=url, sha256=SHA256, timeout="50 ms")


def test_only_the_web_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no address on the web"):
        fetch_wikiticker(tmp_path, url="file:///etc/hostname")


def test_the_address_is_that_of_the_published_file() -> None:
    assert _WIKITICKER_URL.startswith("https://")
    assert _WIKITICKER_URL.endswith(
        f"apache/druid/master/examples/quickstart/tutorial/{_WIKITICKER_FILE}"
    )


def test_the_hash_is_that_of_the_real_file(tmp_path: Path) -> None:
    real = REAL_DATA / "wikiticker" / _WIKITICKER_FILE
    if not real.is_file():
        pytest.skip("real data not present")
    with server(real.read_bytes()) as url:
        path = fetch_wikiticker(tmp_path, url=url)
    assert len(lines(path)) == 39_244
