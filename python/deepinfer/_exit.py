"""Ends running calls before the interpreter does.

A call runs without the GIL on a thread that may be a daemon. Python would take such a thread down
when it asks for the GIL again, in the middle of C++ frames, which aborts the process.
"""

from __future__ import annotations

import atexit
import os
import threading

_live: set[Call] = set()
_exiting = threading.Event()


class Call:
    """A running call: from its making until `end()`, or as a context manager.

    The interpreter's exit sets `stop` and waits for the end. Making one raises RuntimeError once
    the exit has begun, save on the main thread, which is then still in a function of `atexit`.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._ended = threading.Event()
        _live.add(self)
        if _exiting.is_set() and threading.current_thread() is not threading.main_thread():
            self.end()
            raise RuntimeError("the interpreter is exiting")

    def end(self) -> None:
        _live.discard(self)
        self._ended.set()

    def wait(self) -> None:
        self._ended.wait()

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()


def _end_calls() -> None:
    _exiting.set()
    calls = list(_live)
    for call in calls:
        call.stop.set()
    for call in calls:
        call.wait()


atexit.register(_end_calls)
os.register_at_fork(after_in_child=_live.clear)  # the threads stay behind in the parent
