from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.findings.incidents import Incidents, incidents_of
from kstoolkit.findings.marks import Mark, Marks, add_mark, load_marks, mark_of, remove_marks
from kstoolkit.findings.rules import Exempt
from kstoolkit.moments import moment_ms
from tests.findings.made import finding, findings

HOSTILE = (
    '"]\nkind = "Ceiling"',
    "'''\"\"\"\\",
    "# no comment",
    "\u202eabc\u2066",
    "a\x00\x7f\r\n\tb",
    "😀 \U000e0001",
    "<script>alert(1)</script>",
    "",
    "x" * 10_000,
)
WRITTEN = b"""\
# ours, by hand
[[mark]]   # as agreed
mark = 'muted'
user = "Cy"

# of the other
[[mark]]
mark = 'known'
user = "Di"

# the end"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "marks.toml"


def known(user: str, **more: str) -> Mark:
    return mark_of(user, "known", **more)


@pytest.mark.parametrize("user", HOSTILE)
def test_any_name_is_marked_and_the_file_stays_readable(path: Path, user: str) -> None:
    path.write_bytes(WRITTEN)
    add_mark(path, known(user, why=user))
    assert [each.user for each in load_marks(path)] == ["Cy", "Di", user]
    assert load_marks(path)[-1].why == user
    assert path.read_bytes().startswith(WRITTEN)
    assert remove_marks(path, user) == 1
    assert path.read_bytes().rstrip() == WRITTEN


@given(st.lists(st.text(), min_size=1, max_size=4), st.text(max_size=30))
def test_names_come_back_as_they_are_each_once(users: list[str], why: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "marks.toml"
        for user in [*users, *users]:
            add_mark(path, known(user, why=why))
        assert load_marks(path).known == set(users)
        assert len(load_marks(path)) == len(set(users))


def test_a_comment_above_a_table_stays_with_it_when_the_one_before_goes(path: Path) -> None:
    path.write_bytes(WRITTEN)
    assert remove_marks(path, "Cy") == 1
    assert path.read_text().splitlines()[:3] == ["# ours, by hand", "# of the other", "[[mark]]"]
    assert load_marks(path).known == {"Di"}
    assert remove_marks(path, "Cy") == 0


def test_line_ends_stay_as_they_are(path: Path) -> None:
    path.write_bytes(b"# nothing yet\r\n")
    add_mark(path, Mark(mark="known", user="Anna"))
    expected = b'# nothing yet\r\n\r\n[[mark]]\r\nmark = "known"\r\nuser = "Anna"\r\n'
    assert path.read_bytes() == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[[mark]\n", "is no TOML"),
        (b"other = 1\n", "something else"),
        (b"\xff\xfe", "is no TOML"),
        (b"mark = [{mark = 'known', user = 'Bo'}]\n", "something else"),
        (b"[[mark]]\nmark = 'knwn'\nuser = 'Bo'\n", "mark 1 says 'knwn' of 'Bo'"),
        (b"[[mark]]\nmark = 'known'\n", "mark 1 says 'known' of None"),
        (b"[[mark]]\nmark = 'known'\nusr = 'Bo'\n", "unknown field 'usr'"),
        (b"[[mark]]\nmark = 'known'\nuser = 'Bo'\nuntil = 'soon'\n", "until = 'soon' is not"),
        (b"[[mark]]\nmark = 'known'\nuser = 7\n", "user = 7 is no text"),
        (b"[[mark]]\nmark = 'known'\nuser = 'Bo'\nrules = 'all'\n", "no list of names"),
    ],
)
def test_a_file_of_something_else_is_left_alone(path: Path, content: bytes, said: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        add_mark(path, known("Anna"))
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="can't be written: No such file or directory"):
        add_mark(tmp_path / "no" / "marks.toml", known("Anna"))
    with pytest.raises(OutputError, match="Is a directory"):
        add_mark(tmp_path, known("Anna"))


def test_half_a_character_is_said_to_be_none(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="half a character"):
        add_mark(path, known("a\ud800"))
    assert not path.exists()


def test_a_link_stays_a_link_and_the_mode_stays(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_bytes(WRITTEN)
    real.chmod(0o640)
    path.symlink_to(real)
    add_mark(path, known("Anna"))
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert load_marks(real).known == {"Di", "Anna"}


def test_of_many_who_add_at_the_same_time_none_loses_anothers(path: Path) -> None:
    users = [f"user {n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda user: add_mark(path, known(user)), users))
    assert load_marks(path).known == set(users)


def test_a_known_user_is_exempt_as_the_mark_says_and_a_label() -> None:
    marks = Marks(
        [
            mark_of("Anna", "known", until="2026-12-01", rules="Unusual", why="backup"),
            mark_of("Bo", "muted"),
            mark_of("Cy", "known"),
            mark_of("Cy", "confirmed"),
        ]
    )
    (rule,) = marks.exempts()
    assert rule == Exempt(["Anna"], until="2026-12-01", rules=["Unusual"], why="backup")
    labels = marks.labels().to_pylist()
    assert [(each["user"], each["kind"]) for each in labels] == [
        ("Anna", "known"),
        ("Cy", "confirmed"),
    ]


def some() -> Incidents:
    told = [finding(user=user) for user in ("Anna", "Bo")]
    return incidents_of([findings(*told).table], reached_ms=0)


def test_an_incident_has_its_own_mark_or_its_users_while_that_holds() -> None:
    incidents = some()
    anna = next(each for each in incidents if each.user == "Anna")

    def said(*marks: Mark, now_ms: int = 0) -> dict[str | None, str | None]:
        return {each.user: each.mark for each in Marks(marks).on(incidents, now_ms)}

    assert said() == {"Anna": None, "Bo": None}
    assert said(mark_of(anna, "confirmed")) == {"Anna": "confirmed", "Bo": None}
    assert said(mark_of("Bo", "known"), mark_of(anna, "muted")) == {"Anna": "muted", "Bo": "known"}
    began = mark_of("Bo", "known", until=anna.since_ms)
    assert said(began) == {"Anna": None, "Bo": None}
    muted = mark_of("Bo", "muted", until="2030-01-01")
    assert said(muted)["Bo"] == "muted"
    assert said(muted, now_ms=moment_ms("2030-01-01"))["Bo"] is None
    assert said(mark_of("Bo", "known", rules="Drift"))["Bo"] is None
    assert said(mark_of("Bo", "known", rules="Unusual"))["Bo"] == "known"


def test_a_mark_that_there_is_none_of_is_said() -> None:
    with pytest.raises(ConfigurationError, match="There is no mark 'knwn'"):
        mark_of("Anna", "knwn")
