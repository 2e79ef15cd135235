"""Timelines of all ranks: what computes, what is sent and what waits for what."""

import contextlib
import re
from pathlib import Path

from thinwire.native import _native
from thinwire.together import together

_COLD = 2  # steps that find no order of units and nothing in a buffer
_STEPS = 4


class Timeline:
    """Of some steps: a Chrome trace in a file, and a table as text. All ranks begin and end it."""

    def __init__(self, session, rank, path):
        self._session, self._rank, self._path = session, rank, Path(path)
        with together(session, f"trace to {path}"):  # now rather than after the steps
            if rank == 0:
                self._path.touch()
        session.start_timeline()

    def end(self):
        """The lines to print, on rank 0."""
        summary, trace = self._session.take_timeline()
        with together(self._session, f"trace to {self._path}"):
            if self._rank == 0:
                self._path.write_text(trace)
        return f"{summary}  the trace is in {self._path}: open it in https://ui.perfetto.dev"


class TraceOfSteps:
    """What the config's `thinwire.trace` asks for; told of the beginning of the run and of every
    step."""

    def __init__(self, settings):
        self._path = settings.trace
        self._first, self._last = steps_in(settings.trace_steps)
        self._running = None

    def after(self, step, session, rank):
        """Step `step` is over, 0 at the beginning. The lines to print, or None."""
        if self._path is None:
            return None
        if step + 1 == self._first:
            self._running = Timeline(session, rank, self._path)
        if step != self._last or self._running is None:
            return None
        timeline, self._running = self._running, None
        return timeline.end()


def steps_in(text):
    """The first and the last of "5..8", "5", or None: of four after the first two."""
    if text is None:
        return _COLD + 1, _COLD + _STEPS
    found = re.fullmatch(r"([1-9]\d*)(?:\.\.([1-9]\d*))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if last < first:
        raise _native.UsageError(
            f"thinwire.trace_steps: expected steps such as 5..8, found {text!r}"
        )
    return first, last


@contextlib.contextmanager
def traced(engine, path):
    """See Engine.trace."""
    timeline = Timeline(engine.session, engine.rank, path)
    yield
    engine.say(timeline.end())
