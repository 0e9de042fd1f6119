"""Write the goldens anew: ``python -m tests.face [what pytest takes ...]``.

All of them, and how long commands take to start, if nothing is given; or some, as by ``-k help``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.face.goldens import REWRITING
from tests.face.starting import write_times

if __name__ == "__main__":
    os.environ[REWRITING] = "1"
    code = pytest.main([str(Path(__file__).parent), *sys.argv[1:]])
    if not sys.argv[1:]:
        write_times()
    sys.exit(code)
