"""How parts on Spark exchange what they find: by sockets of their own, or through Spark's shuffle.

Sockets are far quicker, and need what not every cluster gives: a barrier stage, and machines that reach
each other and the driver at any port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from veristream.errors import EnvironmentFailure
from veristream.search.limits import Exchange, SparkOptions

BY_SHUFFLES = "explored by shuffles, which takes longer, since"

_PYTHON_ERROR = re.compile(r"(?!org\.|java\.)[\w.]+(Error|Exception|Failure|gaierror): ")

# Spark's own words where it refuses a barrier stage: dynamic allocation, a chain of RDDs that it cannot
# launch at once, more tasks than it has slots.
_REFUSALS = {
    "SPARK-24942": "Spark refuses barrier stages with dynamic allocation",
    "SPARK-24820": "Spark refuses the barrier stage",
    "SPARK-24819": "Spark has fewer slots than the barrier stage needs",
}
_UNREACHABLE = re.compile(
    r"(ConnectionRefusedError|(socket\.)?gaierror|TimeoutError|OSError: \[Errno (101|110|113)\])(: |\b)"
)


class SocketsRefusedError(EnvironmentFailure):
    """Workers that talk by sockets are not to be had; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the workers did not come: {reason}",
            "see that the cluster has a free core for each part, and that its machines reach the driver;"
            " --exchange shuffle needs neither",
        )
        self.reason = reason


def absence(told: str) -> EnvironmentFailure:
    """Why workers did not come, from what Spark told of their stage; nothing where time was up."""
    for sign, refusal in _REFUSALS.items():
        if sign in told:
            return SocketsRefusedError(refusal)
    reason = _reason(told)
    if reason is None:
        return SocketsRefusedError("they do not reach the driver in time")
    if _UNREACHABLE.match(reason):
        return SocketsRefusedError(f"they do not reach the driver ({reason})")
    return _failure("the workers did not come", told)


def failed_job(told: str) -> EnvironmentFailure:
    """Why a job of a shuffled exploration failed, from what Spark told."""
    return _failure("a job failed", told)


def parted(told: str) -> str | None:
    """Why workers that had come do not reach each other, from what Spark told; None where they do."""
    lines = told.splitlines()
    unreachable = next((line for line in lines if _UNREACHABLE.match(line)), None)
    meeting = any(line.rstrip().endswith(", in meet") for line in lines)
    return f"workers do not reach each other ({unreachable})" if meeting and unreachable else None


def _failure(what: str, told: str) -> EnvironmentFailure:
    missing = re.search(r"No module named '(\w+)", told)
    if missing is not None:
        is_ours = missing[1] == "veristream"
        way = "--py-files veristream.zip" if is_ours else "--archives environment.tar.gz#environment"
        return EnvironmentFailure(
            f"the Python of the cluster's workers has no {missing[1]}",
            f"install it there, or ship it: PYSPARK_SUBMIT_ARGS='{way} pyspark-shell'",
        )
    return EnvironmentFailure(
        f"{what}: {_reason(told) or told.strip().partition(chr(10))[0]}",
        "see that the cluster has a free core for each part, and that its machines reach the driver",
    )


def _reason(told: str) -> str | None:
    """The worker's own error, which ends its Python traceback; around it are Java's lines."""
    lines = [line for line in told.splitlines() if _PYTHON_ERROR.match(line)]
    reasons = lines or [line for line in told.splitlines() if "Exception: " in line]
    return reasons[-1] if reasons else None


@dataclass(slots=True)
class Means:
    """How the parts of a run exchange records: what the user chose, until it turns out not to be had."""

    chosen: Exchange

    @property
    def shuffles(self) -> bool:
        """Whether it is by shuffles."""
        return self.chosen == "shuffle"

    def give_up_sockets(self, reason: str, options: SparkOptions) -> bool:
        """Goes over to shuffles and says so; False where the user wants sockets."""
        if self.chosen != "auto":
            return self.shuffles
        self.chosen = "shuffle"
        options.tell(BY_SHUFFLES, reason)
        return True
