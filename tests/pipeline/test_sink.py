"""What writes a batch's parts travels to nodes that have nothing of ours installed."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SENT = """
    import sys
    from pathlib import Path
    from pyspark import cloudpickle
    from kstoolkit.changelog.topic import Outbox
    from kstoolkit.pipeline.sink import _BatchPlaces, _writing
    from kstoolkit.pipeline.stream import ship_by_value

    ship_by_value()
    outbox = {outbox}
    places = _BatchPlaces("changelog", "findings", "dead_letters", (60_000,), 4, outbox)
    Path(sys.argv[1]).write_bytes(cloudpickle.dumps(_writing(places)))
"""

ARRIVED = """
    import sys
    from pathlib import Path

    class Bare:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"google", "kstoolkit", "rocksdict"}:
                raise ModuleNotFoundError(f"No module named {name!r} on this node")

    sys.meta_path.insert(0, Bare())
    from pyspark import cloudpickle
    write = cloudpickle.loads(Path(sys.argv[1]).read_bytes())
    print(write.__name__)
"""


def said(program: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "outbox", ["None", "Outbox(0, 1, blocks=False)", "Outbox(0, 1, blocks=True)"]
)
def test_a_task_travels_to_a_node_without_kstoolkit_or_protobuf(
    outbox: str, tmp_path: Path
) -> None:
    sent = tmp_path / "task"
    assert not said(SENT.format(outbox=outbox), sent)
    assert said(ARRIVED, sent) == "write"
