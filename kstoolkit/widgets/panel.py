"""A panel: controls, what they show, and a static picture of it where no widget lives.

A notebook that was saved keeps both. The picture stands in an output of its own, which a style
sheet hides while the panel beside it lives, and which hides what stands in the place of one that is
gone: JupyterLab, GitHub and a converted page each show one of the two. (One output with both forms
doesn't do: a trusted page without a kernel says "Loading widget..." for ever.)

What is shown is a plot, a table, a line of text; never markup from the data.

A callback of a widget runs on the kernel's own thread, and nothing else runs meanwhile. So what
takes its time goes to a thread, which touches traits of widgets and nothing else: what it prints
would be lost, and what it raises too, hence an error becomes a text.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event, Lock, RLock, Thread, current_thread
from typing import TYPE_CHECKING, Any, NoReturn

from anywidget import AnyWidget
from IPython.core.getipython import get_ipython
from IPython.display import display
from ipywidgets import HTML, VBox, Widget
from traitlets import Dict, List

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.markup import Html, element, joined
from kstoolkit.records import Closing
from kstoolkit.views.parts import said, source
from kstoolkit.views.still import still

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kstoolkit.views.parts import Part

FIRST_LOOK_SECONDS = 1.0
"""How long a cell waits, with the panel shown, for a picture that tells more than that it reads."""

LONGEST_WAIT_SECONDS = 10
"""How long a panel waits for its own thread, whatever that does."""


class Background:
    """At most one job at a time, in a thread; ``tell`` takes a sentence on why one failed."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._stop = Event()
        self._thread: Thread | None = None
        self._starting = Lock()
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether a job runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, job: Callable[[Event], object]) -> bool:
        """Begin a job, given what ends it, unless busy or closed; return whether it began."""
        with self._starting:
            if self.is_busy or self._is_closed:
                return False
            self._stop = Event()
            told = (self._tell, partial(job, self._stop))
            work = Thread(target=_telling, args=told, daemon=True)
            work.start()
            self._thread = work
        return True

    def every(self, seconds: float, job: Callable[[], object]) -> bool:
        """Do a job now and again and again, until told to end."""

        def again(stop: Event) -> None:
            job()
            while not stop.wait(seconds):
                job()

        return self.start(again)

    def stop(self) -> None:
        """Tell the job to end, and wait for it; from within the job, only tell."""
        with self._starting:
            self._stop.set()
        self.wait()

    def close(self) -> None:
        """Stop, and begin nothing any more."""
        with self._starting:
            self._is_closed = True
        self.stop()

    def wait(self, seconds: float = LONGEST_WAIT_SECONDS) -> None:
        """Wait until the job has ended, not longer than told."""
        with self._starting:
            thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join(seconds)


def _telling(tell: Callable[[str], object], job: Callable[[], object]) -> None:
    """Do a job of a thread; say why it failed, which nobody else would ever see."""
    try:
        job()
    except KstoolkitError as error:
        tell(str(error))
    except Exception as error:  # noqa: BLE001 - as above
        tell(f"{type(error).__name__}: {error}")


class Newest:
    """One job at a time, beside the kernel's thread; of those that wait, the newest."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._lock = Lock()
        self._asked: Callable[[], object] | None = None
        self._idle, self._closed = Event(), False
        self._idle.set()
        self._thread: Thread | None = None

    def ask(self, job: Callable[[], object]) -> None:
        """Have a job done, instead of one that waits."""
        with self._lock:
            self._asked = None if self._closed else job
            if self._idle.is_set() and self._asked is not None:
                self._idle.clear()
                self._thread = Thread(target=self._work, daemon=True)
                self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is left to do, not longer than told; return whether that is so."""
        return self._idle.wait(seconds)

    def stop(self) -> None:
        """Take no more jobs, and wait for the one that runs."""
        with self._lock:
            self._asked, self._closed = None, True
        if self._thread is not current_thread():
            self.wait(LONGEST_WAIT_SECONDS)

    def _work(self) -> None:
        while True:
            with self._lock:
                job, self._asked = self._asked, None
                if job is None:
                    self._idle.set()
                    return
            _telling(self._tell, job)


_STYLE = """
.jp-OutputArea:has(.kst-panel) > .jp-OutputArea-child:has(.kst-static) { display: none; }
.jp-OutputArea:not(:has(.kst-panel)) > :has(+ .jp-OutputArea-child .kst-beside) { display: none; }
.kst-panel { max-width: 100%; gap: 6px; }
.kst-panel h4, .kst-static h4 { margin: 2px 0 4px; }
.kst-static img { max-width: 100%; height: auto; }
.kst-static table { border-collapse: collapse; font-size: 12px; line-height: 1.4; }
.kst-static.kst-static table th, .kst-static.kst-static table td {
  padding: 2px 10px 2px 0; text-align: left; vertical-align: top; overflow-wrap: break-word; }
.kst-static .kst-scrolls { overflow-x: auto; }
.kst-static caption { text-align: left; white-space: nowrap; }
.kst-panel :focus-visible { outline: 2px solid #0072b2; outline-offset: 1px; }
"""

_FACE = """
export default { render({ model, el }) {
  const columns = model.get("columns"), names = columns.flat();
  const view = new View(el, columns, told => model.send(told));
  const chosen = () => Object.entries(model.get("chosen"))
    .forEach(([name, row]) => view.mark(name, row));
  const puts = names.map(name => [`change:${name}`, () => view.put(name, model.get(name))]);
  for (const [event, put] of puts) { put(); model.on(event, put); }
  model.on("change:chosen", chosen);
  chosen();
  return () => {
    view.close();
    for (const [event, put] of puts) model.off(event, put);
    model.off("change:chosen", chosen);
  };
} };
"""


class Face(AnyWidget):
    """A view that lives: parts in columns by their names, and who is told what is done to them.

    >>> heard = []
    >>> face = Face([["list"], ["told"]], heard.append)
    >>> face.put("told", {"kind": "said", "text": "No findings."})
    >>> face.part("told")["text"]
    'No findings.'
    >>> face.close()
    """

    _esm, _css = source("view.js") + _FACE, source("view.css")
    columns: Any = List().tag(sync=True)
    chosen: Any = Dict().tag(sync=True)

    def __init__(self, columns: Sequence[Sequence[str]], told: Callable[[Any], object]) -> None:
        self._sending = RLock()  # ipywidgets' hold_sync is one flag for all threads
        self.add_traits(**{name: Dict().tag(sync=True) for names in columns for name in names})
        super().__init__(columns=[list(names) for names in columns])
        self.on_msg(lambda _, content, __: told(content))

    def put(self, name: str, part: Part) -> None:
        """Show a part in its place, instead of what is there."""
        with self._sending:
            setattr(self, name, part)

    def show(self, **parts: Part) -> None:
        """Show parts in their places, all of them in one message."""
        with self.hold_sync():
            for name, part in parts.items():
                self.put(name, part)

    def still(self, *drawn: Any) -> Html:
        """Return what is shown, as HTML that stands still, and the plots of records, if any."""
        with self._sending:  # parts of one look
            told = [still(self.part(name)) for names in self.columns for name in names]
        for each in (record for record in drawn if record is not None):
            from kstoolkit.plots.axes import picture  # noqa: PLC0415 - draws: only when asked

            told.append(picture(each.plot))
        return joined(*told)

    @contextmanager
    def hold_sync(self) -> Iterator[None]:
        """Send what is put meanwhile in one message; no other thread puts anything meanwhile."""
        with self._sending, super().hold_sync():
            yield

    def part(self, name: str) -> Part:
        """Return what is shown in a place."""
        part: Part = getattr(self, name)
        return part

    def mark(self, name: str, row: float) -> None:
        """Have a row of a table be the chosen one, or where charts stand."""
        with self._sending:
            self.chosen = self.chosen | {name: row}

    def say(self, name: str, sentence: str) -> None:
        """Say how it stands, or nothing."""
        self.put(name, said(sentence))

    @contextmanager
    def telling(self, name: str) -> Iterator[None]:
        """Say what goes wrong meanwhile, and let it be."""
        try:
            yield
        except KstoolkitError as error:
            self.say(name, str(error))


class Panel(Closing):
    """Controls and what they show; displayed by being the last line of a cell.

    ``children`` are the controls, and what they change; ``static`` returns what to show instead
    where no widget lives: the panel's present state as HTML.

    Examples
    --------
    >>> from ipywidgets import IntText
    >>> number = IntText(value=3, description="Number")
    >>> panel = Panel("A number", [number], lambda: element("p", str(number.value)))
    >>> panel
    Panel(A number)
    >>> panel.static_html()
    '<div class="kst-static"><h4>A number</h4><p>3</p></div>'
    >>> panel.close()
    """

    def __init__(self, title: str, children: Sequence[Widget], static: Callable[[], Html]) -> None:
        self.title = title
        self._static = static
        self._held = ExitStack()
        self._place: Any = None  # where the static picture was shown last
        self.is_closed = False
        heading = HTML(element("h4", title))
        self.box = VBox([HTML(element("style", Html(_STYLE))), heading, *children])
        self.box.add_class("kst-panel")

    def on_close(self, end: Callable[[], object]) -> None:
        """Have something ended with the panel: a timer stopped, a store closed."""
        self._held.callback(end)

    def close(self) -> None:
        """End what runs for the panel, free what it holds, and take its controls away.

        Where it was displayed, its last state is shown instead. A second time does nothing.
        """
        if self.is_closed:
            return
        self.is_closed = True
        if self._place is not None:
            self._place.update(self._static_bundle(), raw=True)
        self._held.close()
        for widget in _with_all_below(self.box):
            widget.close()
            for part in (widget.layout, getattr(widget, "style", None)):
                if isinstance(part, Widget):
                    part.close()

    def static_html(self) -> str:
        """Return the present state as HTML that needs neither a kernel nor scripts."""
        return element("div", element("h4", self.title), self._static(), class_="kst-static")

    def __reduce_ex__(self, _: object) -> NoReturn:
        message = f"{type(self).__name__} can't be pickled or copied: it lives in this kernel."
        raise ConfigurationError(message, hint="Keep what it shows; or static_html(), its picture.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title})"

    def _await_look(self, seconds: float) -> None:
        """Wait for what is shown first, not longer than told; here it is shown from the start."""

    def _ipython_display_(self) -> None:
        if getattr(get_ipython(), "kernel", None) is None:
            self._await_look(FIRST_LOOK_SECONDS)
            print(self)  # noqa: T201 - a terminal shows text, and once
            return
        if not self.is_closed:
            told = f"{self.title}: a picture of it stands below."
            _display(dict(self.box._repr_mimebundle_()) | {"text/plain": told})
            self._await_look(FIRST_LOOK_SECONDS)
        self._place = _display(self._static_bundle(beside=not self.is_closed))

    def _static_bundle(self, *, beside: bool = True) -> dict[str, str]:
        whole = element("div", Html(self.static_html()), class_="kst-beside" if beside else "")
        static = element("style", Html(_STYLE)) + whole
        return {"text/html": static, "text/plain": repr(self)}


def _display(bundle: dict[str, Any]) -> object:
    return display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def _with_all_below(widget: Widget) -> list[Widget]:
    below = [each for child in getattr(widget, "children", ()) for each in _with_all_below(child)]
    return [*below, widget]
