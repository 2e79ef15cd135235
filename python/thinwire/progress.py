"""The lines that a run prints of itself: steps_per_print and wall_clock_breakdown of the config."""

import contextlib
import time

_EVERY = 10  # steps, for wall_clock_breakdown without steps_per_print


class Progress:
    """Told of each step, prints every so many of them; measures only what it prints."""

    def __init__(self, settings):
        self._line = settings.steps_per_print is not None
        self._breakdown = settings.wall_clock_breakdown
        self._every = settings.steps_per_print or _EVERY
        self._samples = settings.train_batch
        self._silent = not (self._line or self._breakdown)
        self._begin()

    def _begin(self):
        self._steps = 0
        self._from = None  # when the first part of the first step began
        self._seconds = dict.fromkeys(("forward", "backward", "step"), 0.0)

    @contextlib.contextmanager
    def timed(self, part):
        """Around a part of a step."""
        if self._silent:
            yield
            return
        begin = time.perf_counter()
        if self._from is None:
            self._from = begin
        try:
            yield
        finally:
            self._seconds[part] += time.perf_counter() - begin

    def lines(self, step, loss, lr):
        """After an optimizer step, the lines that are due."""
        self._steps += 1
        if self._silent or step % self._every:
            return []
        took = (time.perf_counter() - self._from) / self._steps
        parts = {part: seconds / self._steps for part, seconds in self._seconds.items()}
        self._begin()
        lines = []
        if self._line:
            speed = f"{self._samples / took:.1f} samples/s" if self._samples else ""
            speed = ", ".join(filter(None, (speed, f"{1000 * took:.1f} ms/step")))
            rate = ", ".join(f"{each:.3g}" for each in dict.fromkeys(lr))
            lines.append(f"step {step}: loss {loss:.4f}, lr {rate}, {speed}")
        if self._breakdown:
            text = ", ".join(f"{part} {1000 * value:.1f}" for part, value in parts.items())
            rest = 1000 * (took - sum(parts.values()))
            lines.append(f"step {step}: {text}, the rest {rest:.1f} of {1000 * took:.1f} ms/step")
        return lines
