"""One call of Ivy, which lies among PySpark's own jars: Java alone, neither Maven nor Spark."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from kstoolkit.environment import find_java, pip_command
from kstoolkit.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.kafka.artifacts import Artifact


REPOSITORY = "KSTOOLKIT_MAVEN_REPOSITORY"
"""The environment variable for the URL of another Maven repository than the public one."""

_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_TROUBLE = re.compile(
    r"^\s*(SERVER ERROR: .+|Server access error at url .+|Host \S+ not found.+"
    r"|problem while downloading .+|impossible to .+|.*(?:invalid|bad) (?:sha1|md5).*)$",
    re.MULTILINE,
)
_UNRESOLVED = re.compile(r"^\s*:: ([^#\s]+)#([^;\s]+);([^!:\s]+)[!:]", re.MULTILINE)

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="maven" m2compatible="true" timeoutConstraint="patience"{root}/>
  </resolvers>
</ivysettings>
"""

_MODULE = """\
<ivy-module version="2.0">
  <info organisation="kstoolkit" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


class Refusal(Exception):  # noqa: N818 - an answer, made an error of by who asked
    """What Ivy says when it has not got everything.

    Parameters
    ----------
    reason
        The first line that says what is wrong.
    missing
        What the repository has not, as ``group:name:version``; empty if it could not be asked.
    """

    def __init__(self, reason: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


def retrieve(artifacts: Sequence[Artifact], folder: Path, *, transitive: bool) -> Path:
    """Return the folder below ``folder`` with the jars of ``artifacts``, their checksums checked.

    Parameters
    ----------
    artifacts
        What to fetch.
    folder
        A folder for this alone. What was fetched before a failure stays in it for the next try.
    transitive
        Whether to fetch also what they need.

    Raises
    ------
    Refusal
        If not all of it came.
    EnvironmentFault
        If there is no Java, or no Ivy.
    """
    java, ivy = find_java().home / "bin" / "java", _ivy_jar()
    root = os.environ.get(REPOSITORY)
    settings = _SETTINGS.format(root=f" root={quoteattr(root)}" if root else "")
    (folder / "settings.xml").write_text(settings, encoding="utf-8")
    wanted = "\n".join(_dependency(each, transitive=transitive) for each in artifacts)
    (folder / "ivy.xml").write_text(_MODULE.format(dependencies=wanted), encoding="utf-8")
    # Relative paths: in Ivy's patterns brackets mean something, and a folder's name may have some.
    files = ["-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "ivy"]
    what = ["-confs", "default", "-types", "jar", "bundle", "-retrieve", f"jars/{_PATTERN}"]
    done = subprocess.run(  # noqa: S603 - our own command line
        [str(java), *_proxies(), "-jar", str(ivy), *files, *what, "-warn"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode or not any(folder.glob("jars/*.jar")):
        raise _refusal(done.stdout.decode(errors="replace"))
    return folder / "jars"


def _dependency(artifact: Artifact, *, transitive: bool) -> str:
    org, name, version = map(quoteattr, (artifact.group, artifact.name, artifact.version))
    follow = "true" if transitive else "false"
    return (
        f'    <dependency org={org} name={name} rev={version} conf="default-&gt;default" '
        f'transitive="{follow}"/>'
    )


def _ivy_jar() -> Path:
    # Found without importing it: pyspark takes its time, and nothing of it runs here.
    found = find_spec("pyspark")
    for place in (found and found.submodule_search_locations) or ():
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    message = "The package pyspark, whose jars/ holds the Ivy that fetches jars, is not complete."
    raise EnvironmentFault(message, hint=f"Run: {pip_command('pyspark', again=True)}")


def _proxies() -> list[str]:
    """Return the proxies that pip would use, in Java's words: it doesn't read the environment."""
    options = []
    for scheme, place in urllib.request.getproxies().items():
        proxy = urlsplit(place if "//" in place else f"//{place}")
        if scheme in {"http", "https"} and proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}"]
            options += [f"-D{scheme}.proxyPort={proxy.port}"] if proxy.port else []
    return options


def _refusal(said: str) -> Refusal:
    trouble = _TROUBLE.search(said)
    if trouble:
        return Refusal(trouble[1].strip())
    missing = tuple(dict.fromkeys(":".join(found) for found in _UNRESOLVED.findall(said)))
    if missing:
        return Refusal(f"{', '.join(missing)}: not found", missing)
    lines = [line.strip() for line in said.splitlines() if line.strip(" .:")]
    return Refusal(lines[-1] if lines else "no reason given")
