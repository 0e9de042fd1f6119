from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ColumnError
from kstoolkit.pipeline.columns import column_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def logins(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 'Ann' AS name, named_struct('user', 'Bo') AS actor, 'x y' AS `a b`")


@pytest.mark.parametrize("text", ["user", "USER", "lower(user)", "coalesce(name, User )"])
def test_the_name_of_whoever_is_logged_in_is_no_column(logins: DataFrame, text: str) -> None:
    with pytest.raises(ColumnError, match=r"(?i)no column 'user'"):
        column_of(logins, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("name", "Ann"),
        ("NAME", "Ann"),
        ("a b", "x y"),
        ("lower(name)", "ann"),
        ("actor.user", "Bo"),
        ("concat('user ', name)", "user Ann"),
        (r"concat('it\'s user ', name)", "it's user Ann"),
    ],
)
def test_names_and_expressions_are_read(logins: DataFrame, text: str, value: str) -> None:
    (row,) = logins.select(column_of(logins, text)).collect()
    assert row[0] == value


def test_a_column_called_user_may_stand_in_expressions(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'Ann' AS user")
    (row,) = df.select(column_of(df, "upper(user)")).collect()
    assert row[0] == "ANN"
