"""What consumers handled, read from a recording: redeliveries count, other processes do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.history.events import Operation
from veristream.history.manifest import Stream
from veristream.history.verdicts import Word
from veristream.recording.recording import Recording
from veristream.replay.order import HANDLED, observe_order
from veristream.replay.outcome import Evidence, Observed

Receipts = list[tuple[int, int]]
"""The numbers of messages, and which delivery of each it is."""


def recorded(folder: Path, received: dict[str, Receipts]) -> Path:
    with Recording(folder, "test") as recording:
        stream = recording.stream("q", Stream("q", offsets=False))
        producer = recording.journal("producer")
        for number in range(3):
            call = producer.invoke(
                Operation.SEND, stream=stream, partition=0, producer=0, number=number, digest=1
            )
            producer.ok(call)
        for name, receipts in received.items():
            journal = recording.journal(name)
            for number, attempt in receipts:
                journal.note(
                    Operation.RECEIVE,
                    stream=stream,
                    partition=0,
                    producer=0,
                    number=number,
                    digest=1,
                    attempt=attempt,
                )
        recording.finish()
    return folder


@pytest.mark.parametrize(
    ("received", "observed", "evidence"),
    [
        (
            {"c": [(0, 1), (1, 1), (0, 2)]},
            Observed(HANDLED, Word.VIOLATED, "c received message 0 after message 1"),
            (Evidence("c received messages 0, 1, 0 again", shows=True),),
        ),
        (
            {"c": [(0, 1), (0, 2), (1, 1)], "d": [(2, 1)]},
            Observed(HANDLED, Word.HELD, "over 4 deliveries, redeliveries included"),
            (Evidence("c received messages 0, 0 again, 1"), Evidence("d received message 2")),
        ),
        (
            {"c": [(2, 1), (0, 1), (1, 1)]},
            Observed(
                HANDLED,
                Word.VIOLATED,
                "c received message 0 after message 2; c received message 1 after message 2",
            ),
            (Evidence("c received messages 2, 0, 1", shows=True),),
        ),
        (
            {"other": [(1, 1), (0, 2)]},
            Observed(HANDLED, Word.NOT_OBSERVABLE, "nothing was received"),
            (),
        ),
    ],
)
def test_a_message_after_a_later_one_is_out_of_order(
    tmp_path: Path, received: dict[str, Receipts], observed: Observed, evidence: tuple[Evidence, ...]
) -> None:
    assert observe_order(recorded(tmp_path / "h", received), ["c", "d"]) == (observed, evidence)
