"""How a process of a party begins and ends."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire import run


def run_process(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Does the work and logs to stderr; gives the exit status, and says there why it is not 0."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        run(work())
    except ModelError as error:
        sys.stderr.write(error.render() + "\n")
        return 2
    except EnvironmentFailure as failure:
        sys.stderr.write(failure.render() + "\n")
        return 3
    return 0
