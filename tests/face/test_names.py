"""The public names: which there are, what they take, and what can be asked of what they return."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

import kstoolkit as kst
from kstoolkit import errors
from tests.face.goldens import check
from tests.face.signatures import described

TOLD = {
    "spark_session": "kstoolkit.pipeline.session",  # README.md
    "Broker": "kstoolkit.kafka.broker",  # notebooks 9 and 10
    "with_connector": "kstoolkit.pipeline.topicfeed",  # notebook 10
}
"""What users were told to import from elsewhere than the package itself, and from where."""


def test_the_public_names_are_as_they_were() -> None:
    check("names.txt", "".join(f"{name}\n" for name in kst.__all__))


def test_what_the_public_names_take_and_return_is_as_it_was() -> None:
    told = described(kst)
    assert "kstoolkit." not in told
    check("signatures.txt", told)


def test_errors_are_caught_by_the_names_that_they_had() -> None:
    kinds = [
        each
        for _, each in sorted(vars(errors).items())
        if inspect.isclass(each) and issubclass(each, Exception)
    ]
    lines = (f"{kind.__name__}: {', '.join(b.__name__ for b in kind.__mro__)}\n" for kind in kinds)
    check("errors.txt", "".join(lines))


@pytest.mark.parametrize("name", TOLD)
def test_what_users_were_told_to_import_is_still_there(name: str) -> None:
    assert callable(getattr(import_module(TOLD[name]), name))
