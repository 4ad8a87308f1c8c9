"""The check of a bucket: all events of some partitions, decided for every property that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.history.checks.context import Context
from veristream.history.checks.parts import Part
from veristream.history.checks.rows import Rows
from veristream.history.properties import Property


def check_bucket(rows: Rows, context: Context, asked: Sequence[Property]) -> dict[Property, Part]:
    """Returns what the rows of a bucket, in any order, show of each property.

    `in flight is bounded` is not decided here for the queues of `context.spread`: see `check_spread`.
    """
    raise NotImplementedError


def check_spread(rows: Rows, context: Context) -> Part:
    """Returns what all `RECEIVE`, `ACKNOWLEDGE` and `REJECT` events of a queue of `context.spread`, from
    all buckets, show of `in flight is bounded`; `operations` are counted by `check_bucket`."""
    raise NotImplementedError
