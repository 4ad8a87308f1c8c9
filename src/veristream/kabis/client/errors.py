"""The errors of producers and consumers, each with a hint."""

from __future__ import annotations

from veristream.errors import EnvironmentFailure, ModelError


class UnknownTopicError(ModelError):
    """The ledger has no such topic or partition."""

    def __init__(self, topic: str, detail: str = "no such topic") -> None:
        super().__init__(f"{topic}: {detail}", hint="an admin can create topics and add partitions")


class KeyEndedError(ModelError):
    """The client's key is not valid, so that the ledger admits nothing it signs."""

    def __init__(self, name: str, key_epoch: int, why: str) -> None:
        super().__init__(
            f"the key of {name}, epoch {key_epoch}, is {why}",
            hint="an admin registers a new key; open the client again with it",
        )


class NoRightError(ModelError):
    """The ledger's access rules do not allow what the client wants."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"a right is missing: {detail}", hint="an admin grants it with `veristream kabis access grant`"
        )


class RefusedClientError(ModelError):
    """The validators do not accept the client's connection."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the validators refuse this client: {why}",
            hint="an admin registers a new key; open the client again with it",
        )


class KeyInUseError(ModelError):
    """The ledger has a batch under this client's key that this client did not make."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__(
            f"another producer uses the key of {name}: {where} has a batch that this producer did not make",
            hint="give each producer its own key, and a journal if it is restarted",
        )


class MissedBlocksError(EnvironmentFailure):
    """The client did not follow the chain for so long that the validators deleted its next block."""

    def __init__(self, height: int) -> None:
        super().__init__(
            f"the client followed the chain to block {height:,}, and the validators have pruned the next",
            "close the client and open it again: it continues from a snapshot",
        )


class BufferFullError(EnvironmentFailure):
    """Events are pushed faster than they are acknowledged."""

    def __init__(self, buffer_bytes: int) -> None:
        super().__init__(
            f"{buffer_bytes} bytes are not acknowledged yet",
            "push with a longer timeout, raise buffer_bytes, or see why the validators do not answer",
        )


class DeliveryTimeoutError(EnvironmentFailure):
    """An event was not acknowledged in time; if it was signed before, it may still be delivered."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(
            f"{where}: not acknowledged in time: {detail}",
            "see which parties run; signed events are resent while the producer is open",
        )


class PolicyChangedError(EnvironmentFailure):
    """The topic stopped being validated before a signed batch was admitted."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic} is no longer validated, and the event was signed before that changed",
            "push it again; it is delivered twice only if the topic becomes validated again",
        )


class ClosedError(ModelError):
    """The producer or consumer is closed."""

    def __init__(self, detail: str = "") -> None:
        super().__init__("closed" + (f": {detail}" if detail else ""), hint="open a new one")


class BelowLowWaterError(ModelError):
    """An ordered decision has released the events."""

    def __init__(self, topic: str, partition: int, index: int, low_water: int) -> None:
        super().__init__(
            f"{topic}-{partition}: index {index} is below the low-water mark {low_water}",
            hint=f"seek to {low_water}, or to the beginning",
        )
        self.low_water = low_water


class NotAssignedError(ModelError):
    """This consumer does not read the partition."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"{topic}-{partition} is not assigned to this consumer",
            hint="subscribe to the topic; in a group, see assignment()",
        )


class CommitRefusedError(EnvironmentFailure):
    """The ledger refused a consumer's commit or another action in its group."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the group refuses it: {reason}",
            "the partitions were assigned to another member; pull again to read those assigned now",
        )


class NoGroupError(ModelError):
    """The consumer cannot commit, because it has no group."""

    def __init__(self) -> None:
        super().__init__("the consumer has no group", hint="open it with a group's name")
