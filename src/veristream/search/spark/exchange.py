"""How parts on Spark exchange records: through sockets of their own, or through Spark's shuffle.

Sockets are far faster, but need what not every cluster offers: a barrier stage, and machines that reach
each other and the driver at any port.

Spark reports the failure of a task only as text: the message of the Java exception, which includes the
worker's Python traceback. Exception objects never reach the driver. So failures are recognised by Spark's
error classes, by the last line of the traceback, or by a mark that the worker puts into its message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from veristream.errors import EnvironmentFailure
from veristream.search.limits import Exchange, SparkOptions
from veristream.search.shared.worker import UNREACHABLE

BY_SHUFFLES = "explored by shuffles, which takes longer, because"

_PYTHON_ERROR = re.compile(r"(?!org\.|java\.)[\w.]+(Error|Exception|Failure|gaierror): ")

# The error classes with which Spark refuses a barrier stage: dynamic allocation, a chain of RDDs that it
# cannot launch at once, more tasks than slots.
_REFUSALS = {
    "SPARK-24942": "Spark refuses barrier stages with dynamic allocation",
    "SPARK-24820": "Spark refuses the barrier stage",
    "SPARK-24819": "Spark has fewer slots than the barrier stage needs",
}
_UNREACHABLE = re.compile(
    r"(ConnectionRefusedError|(socket\.)?gaierror|TimeoutError|OSError: \[Errno (101|110|113)\])(: |\b)"
)


class SocketsRefusedError(EnvironmentFailure):
    """Workers cannot use sockets; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the workers did not connect: {reason}",
            "check that the cluster has a free core for each part, and that its machines reach the driver;"
            " --exchange shuffle needs neither",
        )
        self.reason = reason


def explain_absence(error_text: str) -> EnvironmentFailure:
    """Returns why workers did not connect, from Spark's error; an empty one means that time was up."""
    for sign, refusal in _REFUSALS.items():
        if sign in error_text:
            return SocketsRefusedError(refusal)
    reason = _reason(error_text)
    if reason is None:
        return SocketsRefusedError("they did not reach the driver in time")
    if _UNREACHABLE.match(reason):
        return SocketsRefusedError(f"they cannot reach the driver ({reason})")
    return _failure("the workers did not connect", error_text)


def explain_failed_job(error_text: str) -> EnvironmentFailure:
    """Returns why a job of a shuffled exploration failed, from Spark's error."""
    return _failure("a job failed", error_text)


def explain_unreachable_peers(error_text: str) -> str | None:
    """Returns why workers cannot reach each other, from Spark's error; None if that is not what failed."""
    for line in error_text.splitlines():
        _, mark, reason = line.partition(UNREACHABLE)
        if mark:
            return f"workers cannot reach each other ({reason.strip()})"
    return None


def _failure(what: str, error_text: str) -> EnvironmentFailure:
    missing = re.search(r"No module named '(\w+)", error_text)
    if missing is not None:
        is_ours = missing[1] == "veristream"
        way = "--py-files veristream.zip" if is_ours else "--archives environment.tar.gz#environment"
        return EnvironmentFailure(
            f"the Python of the cluster's workers has no {missing[1]}",
            f"install it there, or ship it: PYSPARK_SUBMIT_ARGS='{way} pyspark-shell'",
        )
    return EnvironmentFailure(
        f"{what}: {_reason(error_text) or error_text.strip().partition(chr(10))[0]}",
        "check that the cluster has a free core for each part, and that its machines reach the driver",
    )


def _reason(error_text: str) -> str | None:
    """Returns the worker's own error: the last line of its Python traceback, which is amid Java's lines."""
    lines = [line for line in error_text.splitlines() if _PYTHON_ERROR.match(line)]
    reasons = lines or [line for line in error_text.splitlines() if "Exception: " in line]
    return reasons[-1] if reasons else None


@dataclass(slots=True)
class ExchangeChoice:
    """How the parts of a run exchange records: as the user chose, or by shuffles once sockets failed."""

    chosen: Exchange

    @property
    def shuffles(self) -> bool:
        return self.chosen == "shuffle"

    def give_up_sockets(self, reason: str, options: SparkOptions) -> bool:
        """Switches to shuffles and tells the user; returns False if the user demands sockets."""
        if self.chosen != "auto":
            return self.shuffles
        self.chosen = "shuffle"
        options.tell(BY_SHUFFLES, reason)
        return True
