"""What a browser finds in a page, and what no page may hold."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from html.parser import HTMLParser

from kstoolkit.views.parts import source

HOSTILE = [
    "<script>alert(1)</script>",
    "</title></style><img src=x onerror=alert(1)>",
    "\" onload='alert(1)' x=\"",
    "]]><!--",
    "\u202eright to left\u2066",
    "a\x00b\x1b[31m\x07",
    "\ud800 alone",
    "&lt;b&gt;",
    "$\\frac{",
]
GROUND = re.compile(
    r"https://(github\.com|docs\.confluent\.io|kafka\.apache\.org|spark\.apache\.org)/[\w./#-]+"
)
"""Where what an advice says stands."""
VOID = {"br", "hr", "img", "link", "meta"}
HTML = {"a", "article", "b", "bdi", "body", "code", "dd", "div", "dl", "dt", "figcaption", "figure"}
HTML |= {"h1", "h2", "h3", "h4", "head", "header", "html", "li", "main", "nav", "ol", "p", "pre"}
HTML |= {"details", "script", "section", "span", "style", "summary", "time", "title", "ul"} | VOID
TABLES = {"caption", "table", "tbody", "td", "th", "thead", "tr"}
DRAWINGS = {"clippath", "defs", "g", "path", "rect", "svg", "text", "use"}
DRAWINGS |= {"image", "pattern", "tspan"}


class Page(HTMLParser):
    """What a browser finds in a page; raises where an end tag does not fit."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append((self.elements[-1][1].get("type"), data))
        elif self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words).replace("\N{NO-BREAK SPACE}", " ")

    def values(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.elements if name in attrs]


def check_scripts(page: Page) -> None:
    """Check that but one script runs, ours, which the policy names; others are data."""
    (policy,) = [attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv")]
    allowed = re.findall("script-src ([^;]*)", policy or "")
    data = [text for kind, text in page.scripts if kind == "application/json"]
    run = [text for kind, text in page.scripts if kind is None]
    assert len(data) + len(run) == len(page.scripts)
    assert all(isinstance(json.loads(each), dict) and "<" not in each for each in data)
    assert bool(run) == bool(data)
    digest = b64encode(hashlib.sha256(run[0].encode()).digest()).decode() if run else ""
    assert allowed == ([f"'sha256-{digest}'"] if run else ["'none'"])
    assert all(text.startswith(source("view.js")) for text in run)
    assert len(run) <= 1


def check_harmless(page: Page) -> None:
    assert {tag for tag, _ in page.elements} <= HTML | TABLES | DRAWINGS
    check_scripts(page)
    names = {name for _, attrs in page.elements for name in attrs}
    assert not {name for name in names if name.startswith("on")}
    assert all(source.startswith("data:image/png;base64,") for source in page.values("src"))
    links = [attrs["href"] or "" for tag, attrs in page.elements if tag == "a"]
    assert all(href.startswith("#") or GROUND.fullmatch(href) for href in links)
    held = [each for each in page.values("href") if not (each[:1] == "#" or each in links)]
    assert all(href == "data:," or href.startswith("data:image/png;base64,") for href in held)
    painted = "".join(page.values("style") + page.values("clip-path") + page.values("fill"))
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)", painted))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    targets = [href[1:] for href in page.values("href") if href.startswith("#")]
    assert set(targets) | set(page.values("aria-labelledby")) <= set(ids)
    # Where advice comes from may be read, and pressed; the page itself asks for nothing there.
    asked = [value for _, attrs in page.elements for value in attrs.values() if value]
    asked = [each for each in asked if each not in links]
    asked += re.findall("<style.*?</style>", page.html, re.DOTALL)
    assert not [each for each in asked if re.search("https?://|@import", each)]
