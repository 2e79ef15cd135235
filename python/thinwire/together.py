"""Work of a rank's own that all ranks wait for."""

import contextlib

from thinwire.native import _native


@contextlib.contextmanager
def together(session, what):
    """What fails inside on one rank fails on all of them: there with its own error, elsewhere with
    one that says so."""
    error = None
    try:
        yield
    except Exception as caught:  # of any kind: the others wait for this rank's answer
        error = caught
    if session.mean_over_ranks(0.0 if error else 1.0) == 1.0:
        return
    raise error or _native.UsageError(f"{what} failed on another rank; its message says why")
