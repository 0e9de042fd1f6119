"""What simulated users are called: names that say nothing about who is abnormal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from kstoolkit.events.draws import Draws


_GIVEN = """
ada alan amina anna björn carlos chen chloé dana david elena emil fatima felix grace hana
hugo ines ivan jana joão juan kaito karim lars leila lena liam lina luca lucía malik
mara maria mei mila nadia nils noor olga omar paul pedro priya rosa ruth sami
sara søren tala tariq theo uma vera victor wanda wei yara yuki yusuf zara zoë łukasz
"""
_FAMILY = """
abe ali bauer berg blanc bose brown castro chan costa cruz diaz dubois eriksen fischer
gomez grant gupta haas hansen hoang hughes ito jensen jones kaya khan kim klein kovač
lang lee li lopez mallik martin meyer moreau mori nagy nkosi novak okafor olsen park patel
pereira petrov ramos reyes rossi sato shah silva singh smith stein suzuki tanaka
torres wang weber yilmaz zhang
"""


def user_names(draws: Draws, number: int) -> pa.Array:
    """Return ``number`` different names in random order, such as ``"zoë.kim"``.

    Once all pairs of names are used up, they carry a number: ``"zoë.kim.2"``. None of them needs
    escaping in JSON or CSV.

    Examples
    --------
    >>> from kstoolkit.events.draws import Draws
    >>> names = user_names(Draws(1, "names"), 10_000)
    >>> len(names), len(names.unique())
    (10000, 10000)
    """
    all_given, all_family = _GIVEN.split(), _FAMILY.split()
    pairs = len(all_given) * len(all_family)
    rounds = -(-number // pairs)
    round_, place = np.divmod(draws.order(rounds * pairs)[:number], pairs)
    given = pa.array(all_given).take(pa.array(place % len(all_given)))
    family = pa.array(all_family).take(pa.array(place // len(all_given)))
    suffix = pc.binary_join_element_wise("", pa.array(round_ + 1).cast(pa.string()), ".")
    suffix = pc.if_else(pa.array(round_ == 0), "", suffix)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(given, family, "."), suffix, "")
