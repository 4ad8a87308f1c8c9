"""What goes wrong for producers and consumers, each with what to do about it."""

from __future__ import annotations

from veristream.errors import EnvironmentFailure, ModelError


class UnknownTopicError(ModelError):
    """The ledger has no such topic or partition."""

    def __init__(self, topic: str, detail: str = "no such topic") -> None:
        super().__init__(f"{topic}: {detail}", hint="an admin creates topics, and adds partitions to them")


class KeyEndedError(ModelError):
    """The client's key is not valid any more, or never was: nothing it signs is admitted."""

    def __init__(self, name: str, key_epoch: int, why: str) -> None:
        super().__init__(
            f"the key of {name}, epoch {key_epoch}, is {why}",
            hint="an admin registers a new key; open the client again with it",
        )


class RefusedClientError(ModelError):
    """The validators do not accept the client's connection."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the validators refuse this client: {why}",
            hint="an admin registers a new key; open the client again with it",
        )


class KeyInUseError(ModelError):
    """The ledger has a batch under our key that we did not make."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__(
            f"somebody else pushes with the key of {name}: {where} has a batch that is not ours",
            hint="one producer per key; give each its own, and a journal to each that is restarted",
        )


class BufferFullError(EnvironmentFailure):
    """Events are pushed faster than they are acknowledged."""

    def __init__(self, buffer_bytes: int) -> None:
        super().__init__(
            f"{buffer_bytes} bytes wait to be acknowledged",
            "push with a longer timeout, raise buffer_bytes, or see why the validators do not answer",
        )


class DeliveryTimeoutError(EnvironmentFailure):
    """An event was not acknowledged in time; if it was signed before, it may still be delivered."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(
            f"{where}: not acknowledged in time: {detail}",
            "see which parties are up; what was signed is sent again for as long as the producer is open",
        )


class PolicyChangedError(EnvironmentFailure):
    """The topic stopped being validated before a batch that was signed for it was admitted."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic} is no longer validated, and the event was signed while it was",
            "push it again; it is delivered twice only if the topic becomes validated once more",
        )


class ClosedError(ModelError):
    """The producer or consumer is closed."""

    def __init__(self, detail: str = "") -> None:
        super().__init__("closed" + (f": {detail}" if detail else ""), hint="open a new one")


class BelowLowWaterError(ModelError):
    """The events were let go by an ordered decision."""

    def __init__(self, topic: str, partition: int, index: int, low_water: int) -> None:
        super().__init__(
            f"{topic}-{partition}: index {index} is below the low-water mark {low_water}",
            hint=f"seek to {low_water}, or to the beginning",
        )
        self.low_water = low_water


class NotAssignedError(ModelError):
    """The partition is not one that this consumer reads."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"{topic}-{partition} is not assigned to this consumer",
            hint="subscribe to the topic; in a group, see assignment()",
        )


class CommitRefusedError(EnvironmentFailure):
    """The ledger does not take what a consumer said to its group."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the group does not take it: {reason}",
            "the partitions have gone to another member; pull again and go on with those that are assigned",
        )


class NoGroupError(ModelError):
    """Commits belong to a group, and the consumer has none."""

    def __init__(self) -> None:
        super().__init__("the consumer is in no group", hint="open it with a group's name")
