"""The properties that are checked on histories, by the names that commands, JSON and the catalogue use."""

from __future__ import annotations

from enum import StrEnum


class Property(StrEnum):
    """What a broker promises; `docs/history-checks.md` defines the check of each."""

    DELIVERED = "acknowledged means delivered"
    PROCESSED = "committed means processed"
    ONCE = "at most once"
    ORDER = "order"
    ONE_OFFSET = "one offset, one message"
    NOTHING_NEW = "nothing from nowhere"
    READERS = "only who may reads"
    ABORTED = "aborted is never read"
    WHOLE = "transactions are seen whole"
    FENCED = "a fenced producer never commits"
    HANGING = "no transaction hangs"
    EXCLUSIVE = "one member holds a partition"
    FORWARD = "commits never move back"
    BOUNDED = "in flight is bounded"
    FINAL = "acknowledged is never delivered again"
