"""The command `veristream`: one file per verb, and the only place that prints."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from io import TextIOWrapper

INTERRUPTED = 130
"""The exit code after Ctrl-C outside of a search."""
GARBAGE = 200_000
"""So many objects that may be garbage are left alone in a check: more than a small one makes in all."""


def main() -> None:
    """Entry point of the `veristream` script; a bug ends it with a code that is no verdict.

    Characters that the terminal cannot encode are escaped instead of raising.
    """
    try:
        _run()
    except Exception as error:  # noqa: BLE001  # reported, with an exit code of its own
        from veristream.cli.failure import end_by_bug

        end_by_bug(error, "--json" in sys.argv[1:])


def _run() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.argv[1:2] == ["check"]:
        gc.set_threshold(GARBAGE)
        atexit.register(gc.freeze)  # then nothing is worth looking for
    from veristream.cli.direct import runs_directly

    try:
        if runs_directly(sys.argv[1:]):
            return
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # whoever read the output has gone; Python must not write the rest at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    from veristream.cli.app import app

    app()
