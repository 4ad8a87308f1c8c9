"""Jepsen's workload for logs: operations become exactly these events, and whatever is wrong is an error.

Operations are written as jepsen/src/jepsen/tests/kafka.clj of jepsen-io/jepsen documents them, and as
src/jepsen/redpanda/workload/queue.clj of jepsen-io/redpanda completes them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.history.foreign.told import imported, tell
from veristream.errors import ModelError
from veristream.history.foreign.edn import EdnReader
from veristream.history.foreign.importing import ImportOptions
from veristream.history.manifest import Incident, Process, Stream

ASSIGNED = """\
{:process 0, :type :invoke, :f :send, :value [[:send 1 10]], :index 0, :time 100}
{:process 0, :type :ok, :f :send, :value [[:send 1 [0 10]]], :index 1, :time 200}
{:process :nemesis, :type :info, :f :start-partition, :value :majority, :index 2, :time 210}
{:process :nemesis, :type :info, :f :start-partition, :value {"n1" #{"n2"}}, :index 3, :time 220}
{:process 1, :type :invoke, :f :send, :value [[:send 1 11]], :index 4, :time 300}
{:process 1, :type :info, :f :send, :value [[:send 1 11]], :error :timeout, :index 5, :time 400}
{:process 0, :type :invoke, :f :send, :value [[:send 1 12]], :index 6, :time 410}
{:process 0, :type :ok, :f :send, :value [[:send 1 [2 12]]], :index 7, :time 420}
{:process :nemesis, :type :info, :f :stop-partition, :value nil, :index 8, :time 430}
{:process :nemesis, :type :info, :f :stop-partition, :value :network-healed, :index 9, :time 440}
#jepsen.history.Op{:process 3, :type :invoke, :f :assign, :value (1), :index 10, :time 500,
 :seek-to-beginning? true}
#jepsen.history.Op{:process 3, :type :ok, :f :assign, :value (1), :index 11, :time 510,
 :seek-to-beginning? true}
{:process 3, :type :invoke, :f :poll, :value [[:poll]], :poll-ms 1000, :index 12, :time 520}
{:process 3, :type :ok, :f :poll, :value [[:poll {1 [[0 10] [2 12]]}]], :index 13, :time 530}
"""

ASSIGNED_TOLD = [
    "100 process 0: SEND ? keys/1 0:0",
    "200 process 0: SEND ok keys/1 0:0 @0",
    "410 process 0: SEND ? keys/1 0:1",
    "420 process 0: SEND ok keys/1 0:1 @2",
    "300 process 1: SEND ? keys/1 1:0",
    "400 process 1: SEND info keys/1 1:0 (timeout)",
    "400 process 1: CLOSE ok",
    "510 process 3: SEEK ok keys/1 @0",
    "530 process 3: RECEIVE ok keys/1 0:0 @0",
    "530 process 3: RECEIVE ok keys/1 0:1 @2",
    "530 process 3: READ_TO_END ? keys/1",
    "530 process 3: READ_TO_END ok keys/1 from 0 @3",
]


def ops(*lines: str) -> str:
    """Numbers operations, which have neither index nor time; each is `PROCESS TYPE :f VALUE and more`."""
    text = ""
    for index, line in enumerate(lines):
        process, kind, rest = line.split(" ", 2)
        f, value = rest.split(" ", 1)
        head = f":index {index}, :time {index * 10}, :process {process}, :type :{kind}"
        text += f"{{{head}, :f :{f}, :value {value}}}\n"
    return text


def test_sends_polls_and_faults(tmp_path: Path) -> None:
    manifest, events = imported(tmp_path, {"history.edn": ASSIGNED})
    assert tell(manifest, events) == ASSIGNED_TOLD
    assert manifest.processes == tuple(Process(f"process {n}", "control node") for n in (0, 1, 3))
    assert manifest.streams == (Stream("keys"),)
    assert manifest.incidents == (Incident("start-partition", "majority", 210, 440),)
    assert (manifest.source, manifest.workload, manifest.complete) == ("jepsen", "kafka", True)
    assert manifest.producers_complete
    assert manifest.settings == {"transactions": "no"}
    receipts = events[8:10]
    assert receipts[0].call == receipts[1].call  # one poll
    assert len({(event.process, event.call) for event in events}) == 7


def test_the_same_history_as_json(tmp_path: Path) -> None:
    def plain(value: object) -> object:
        match value:
            case frozenset() | tuple():
                return [plain(each) for each in value]
            case dict():
                return {str(key): plain(each) for key, each in value.items()}
            case _:
                return value

    (tmp_path / "a.edn").write_text(ASSIGNED)
    values = [plain(value) for _, value in EdnReader(tmp_path / "a.edn")]
    lines = "".join(json.dumps(value) + "\n" for value in values)
    for number, text in enumerate((lines, json.dumps(values), json.dumps(values, indent=1))):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert tell(*imported(folder, {"history.json": text})) == ASSIGNED_TOLD


def test_the_file_of_a_test_in_a_store(tmp_path: Path) -> None:
    for name in ("results.edn", "jepsen.log"):
        (tmp_path / name).write_text("{:valid? false}")
    (tmp_path / "history.edn").write_text(ASSIGNED)
    from veristream.history.foreign.importing import import_history

    _, count = import_history([tmp_path], tmp_path / "history")
    assert count == 12


def test_a_session_ends_where_a_position_is_not_known(tmp_path: Path) -> None:
    text = (
        ops(
            "0 invoke assign [1 a]",
            "0 ok assign [1 a]",
            "0 invoke poll [[:poll]]",
            '0 ok poll [[:poll {1 [[4 40]], "a" [[7 70]]}]]',
            "0 invoke assign [1 2]",
            "0 ok assign [1 2]",
            "0 invoke poll [[:poll]]",
            "0 ok poll [[:poll {1 [[5 50]]}]]",
            "0 invoke poll [[:poll]]",
            "0 fail poll [[:poll]]",
            "0 invoke poll [[:poll]]",
            "0 ok poll [[:poll {1 [[8 80]]}]]",
            "0 invoke assign [a 1]",
            "0 ok assign [a 1]",
            "0 invoke poll [[:poll]]",
            "0 ok poll [[:poll {1 [[9 90]], a [[7 70]]}]]",
        )
        .replace("[1 a]", '[1 "a"]')
        .replace("[a 1]", '["a" 1]')
        .replace(" a [[", ' "a" [[')
    )
    told = tell(*imported(tmp_path, {"history.edn": text}))
    assert told == [
        "30 process 0: RECEIVE ok keys/1 @4",
        "30 process 0: RECEIVE ok a/0 @7",
        "70 process 0: RECEIVE ok keys/1 @5",  # key 1 was kept
        "110 process 0: SEEK ok keys/1",  # after a poll that failed
        "110 process 0: RECEIVE ok keys/1 @8",
        "150 process 0: RECEIVE ok keys/1 @9",
        "150 process 0: SEEK ok a/0",  # it was given up in between
        "150 process 0: RECEIVE ok a/0 @7",
        "150 process 0: READ_TO_END ? keys/1",
        "150 process 0: READ_TO_END ok keys/1 from 4 @6",
        "150 process 0: READ_TO_END ? keys/1",
        "150 process 0: READ_TO_END ok keys/1 from 8 @10",
        "150 process 0: READ_TO_END ? a/0",
        "150 process 0: READ_TO_END ok a/0 from 7 @8",
    ]


def test_under_subscribe_each_operation_is_a_session(tmp_path: Path) -> None:
    text = ops(
        "0 invoke subscribe [1]",
        "0 ok subscribe [1]",
        "0 invoke poll [[:poll]]",
        "0 ok poll [[:poll {1 [[0 1]]}]]",
        "0 invoke poll [[:poll]]",
        "0 ok poll [[:poll {1 [[1 2] [3 4]]}]]",
        "0 invoke poll [[:poll] [:poll]]",
        "0 ok poll [[:poll {1 [[4 5]]}] [:poll {1 [[6 7]]}]], :rebalance-log []",
        "0 invoke poll [[:poll] [:poll]]",
        "0 ok poll [[:poll {1 [[7 8]]}] [:poll {1 [[9 10]], 2 [[0 1] [2 3]]}]], "
        ":rebalance-log [{:type :revoked, :keys [2]}]",
        "0 invoke poll [[:poll] [:poll]]",
        "0 ok poll [[:poll {1 [[11 8]]}] [:poll {1 [[13 10]]}]]",
    )
    told = tell(*imported(tmp_path, {"history.edn": text}))
    assert told[:19] == [
        "30 process 0: RECEIVE ok keys/1 @0",
        "50 process 0: SEEK ok keys/1",
        "50 process 0: RECEIVE ok keys/1 @1",
        "50 process 0: RECEIVE ok keys/1 @3",
        "70 process 0: SEEK ok keys/1",
        "70 process 0: RECEIVE ok keys/1 @4",
        "70 process 0: RECEIVE ok keys/1 @6",
        "90 process 0: SEEK ok keys/1",
        "90 process 0: RECEIVE ok keys/1 @7",
        "90 process 0: RECEIVE ok keys/1 @9",
        "90 process 0: RECEIVE ok keys/2 @0",
        "90 process 0: SEEK ok keys/2",  # it was rebalanced
        "90 process 0: RECEIVE ok keys/2 @2",
        "110 process 0: SEEK ok keys/1",
        "110 process 0: RECEIVE ok keys/1 @11",
        "110 process 0: SEEK ok keys/1",  # nobody wrote down whether it was rebalanced
        "110 process 0: RECEIVE ok keys/1 @13",
        "110 process 0: READ_TO_END ? keys/1",
        "110 process 0: READ_TO_END ok keys/1 from 0 @10",
    ]
    covered = [line.split("READ_TO_END ok ")[1] for line in told if "READ_TO_END ok" in line]
    assert covered == [
        "keys/1 from 0 @10",
        "keys/1 from 11 @12",
        "keys/1 from 13 @14",
        "keys/2 from 0 @1",
        "keys/2 from 2 @3",
    ]


def test_a_transaction_that_was_committed_aborted_or_neither(tmp_path: Path) -> None:
    text = ops(
        "0 invoke txn [[:send 1 1] [:poll] [:send 2 1]]",
        "0 ok txn [[:send 1 [0 1]] [:poll {}] [:send 2 [0 1]]]",
        "0 invoke send [[:send 1 2] [:send 1 3]]",
        "0 fail send [[:send 1 [2 2]] [:send 1 3]], :error {:type :abort, :abort-ok? true}",
        "0 invoke poll [[:poll]]",
        "0 ok poll [[:poll {}]]",
        "0 invoke txn [[:send 1 4] [:poll]]",
        "0 info txn [[:send 1 [5 4]] [:poll]], :error :kafka-timeout",
    )
    manifest, events = imported(tmp_path, {"history.edn": text})
    assert manifest.settings == {"transactions": "yes"}
    assert tell(manifest, events) == [
        "0 process 0: BEGIN ? in 0",
        "0 process 0: BEGIN ok in 0",
        "0 process 0: SEND ? keys/1 0:0 in 0",
        "0 process 0: SEND ? keys/2 0:1 in 0",
        "0 process 0: END_COMMIT ? in 0",  # for all that others know
        "10 process 0: SEND ok keys/1 0:0 @0 in 0",
        "10 process 0: SEND ok keys/2 0:1 @0 in 0",
        "10 process 0: END_COMMIT ok in 0",
        "20 process 0: BEGIN ? in 1",
        "20 process 0: BEGIN ok in 1",
        "20 process 0: SEND ? keys/1 0:2 in 1",
        "20 process 0: SEND ? keys/1 0:3 in 1",
        "20 process 0: END_ABORT ? in 1",
        "30 process 0: SEND info keys/1 0:2 in 1 ({'type': 'abort', 'abort-ok?': True})",
        "30 process 0: SEND info keys/1 0:3 in 1 ({'type': 'abort', 'abort-ok?': True})",
        "30 process 0: END_ABORT ok in 1",
        "60 process 0: BEGIN ? in 2",
        "60 process 0: BEGIN ok in 2",
        "60 process 0: SEND ? keys/1 0:4 in 2",
        "60 process 0: END_COMMIT ? in 2",
        "70 process 0: SEND info keys/1 0:4 in 2 (kafka-timeout)",
        "70 process 0: END_COMMIT info in 2",
        "70 process 0: CLOSE ok",
    ]
    assert events[10].call == events[11].call  # one partition in one operation
    assert events[2].call != events[3].call


def test_a_transaction_that_receives_its_own_message(tmp_path: Path) -> None:
    text = ops(
        "0 invoke assign [1]",
        "0 ok assign [1]",
        "0 invoke txn [[:send 1 7] [:poll]]",
        "0 ok txn [[:send 1 [5 7]] [:poll {1 [[4 6] [5 7] [6 8]]}]]",
    )
    assert tell(*imported(tmp_path, {"history.edn": text})) == [
        "20 process 0: BEGIN ? in 0",
        "20 process 0: BEGIN ok in 0",
        "20 process 0: SEND ? keys/1 0:0 in 0",
        "20 process 0: SEEK ok keys/1",
        "20 process 0: RECEIVE ok keys/1 0:0 @5",  # before the commit began
        "20 process 0: END_COMMIT ? in 0",
        "30 process 0: SEND ok keys/1 0:0 @5 in 0",
        "30 process 0: SEEK ok keys/1",
        "30 process 0: RECEIVE ok keys/1 @4",
        "30 process 0: SEEK ok keys/1",
        "30 process 0: RECEIVE ok keys/1 @6",
        "30 process 0: END_COMMIT ok in 0",
        "30 process 0: READ_TO_END ? keys/1",
        "30 process 0: READ_TO_END ok keys/1 from 4 @5",
        "30 process 0: READ_TO_END ? keys/1",
        "30 process 0: READ_TO_END ok keys/1 from 6 @7",
    ]


def test_a_value_that_looks_like_an_offset_and_a_value(tmp_path: Path) -> None:
    text = ops(
        "0 invoke send [[:send 1 [5 6]]]",
        "0 ok send [[:send 1 [5 6]]]",
        "0 invoke send [[:send 1 [7 8]]]",
        "0 ok send [[:send 1 [3 [7 8]]]]",
    )
    told = tell(*imported(tmp_path, {"history.edn": text}))
    assert [told[1], told[3]] == [
        "10 process 0: SEND ok keys/1 0:0",
        "30 process 0: SEND ok keys/1 0:1 @3",
    ]


def test_whether_there_were_transactions_can_be_said(tmp_path: Path) -> None:
    text = ops("0 invoke txn [[:send 1 1] [:send 1 2]]", "0 fail txn [[:send 1 1] [:send 1 2]]")
    told = tell(*imported(tmp_path, {"history.edn": text}, ImportOptions(transactions=False)))
    assert told == [
        "0 process 0: SEND ? keys/1 0:0",
        "0 process 0: SEND ? keys/1 0:1",
        "10 process 0: SEND fail keys/1 0:0",
        "10 process 0: SEND fail keys/1 0:1",
    ]


def test_an_acknowledgement_without_an_offset_leaves_the_beginning_open(tmp_path: Path) -> None:
    """Read from 0 to the end would mean that a message without a known offset was passed, too."""
    text = ops(
        "0 invoke send [[:send 1 1]]",
        "0 ok send [[:send 1 [nil 1]]]",
        "0 invoke assign [1 2]",
        "0 ok assign [1 2], :seek-to-beginning? true",
        "0 invoke poll [[:poll]]",
        "0 ok poll [[:poll {1 [[0 3] [1 4]], 2 [[0 1]]}]]",
    ).replace("assign, :value [1 2]}", "assign, :value [1 2], :seek-to-beginning? true}")
    told = tell(*imported(tmp_path, {"history.edn": text}))
    assert [line for line in told if "READ_TO_END ok" in line] == [
        "50 process 0: READ_TO_END ok keys/1 from 1 @2",
        "50 process 0: READ_TO_END ok keys/2 from 0 @1",
    ]


def test_a_history_without_index_and_time_is_in_order(tmp_path: Path) -> None:
    text = (
        "{:process 0 :type :invoke :f :send :value [[:send 1 1]]}"
        "{:process 0 :type :ok :f :send :value [[:send 1 [0 1]]]}"
    )
    assert tell(*imported(tmp_path, {"a.edn": text})) == [
        "0 process 0: SEND ? keys/1 0:0",
        "1 process 0: SEND ok keys/1 0:0 @0",
    ]


def whole(folder: Path, text: str) -> bool:
    """Whether a text is a history; if not, an error names its file, and no history is left."""
    folder.mkdir()
    try:
        imported(folder, {"history.edn": text})
    except ModelError as error:
        told = str(folder / "history.edn") in error.message and bool(error.hint)
        return not (told and not (folder / "history" / "history.json").exists())
    return True


def test_a_file_that_is_cut_is_an_error(tmp_path: Path) -> None:
    """Only one that ends between two operations, with none under way, cannot be told from a whole one."""
    lines = ASSIGNED.splitlines(keepends=True)[:8]
    text = "".join(lines)
    ends = {len("".join(lines[:count])) for count in (2, 3, 4, 6)}
    found = {length for length in range(len(text) - 1) if whole(tmp_path / str(length), text[:length])}
    assert found == ends | {end - 1 for end in ends}  # with or without the last line break


def test_a_vector_that_is_cut_is_an_error(tmp_path: Path) -> None:
    text = f"[{ASSIGNED}]"
    assert whole(tmp_path / "whole", text)
    assert not [length for length in range(0, len(text), 5) if whole(tmp_path / str(length), text[:length])]


GOOD = ("0 invoke send [[:send 1 1]]", "0 ok send [[:send 1 [0 1]]]")


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (("0 invoke snd [[:send 1 1]]",), 1, "unknown :f :snd"),
        (("0 invoke dequeue nil", *GOOD), 2, "unknown :f :send"),
        (("0 invok send [[:send 1 1]]",), 1, "unknown :type 'invok'"),
        (("-1 invoke send [[:send 1 1]]",), 1, ":process is -1, not a number or :nemesis"),
        (("0 invoke send 5",), 1, ":send has 5, not a list of [:send key value] and [:poll]"),
        (("0 invoke send [[:snd 1 1]]",), 1, "unknown micro-operation ('snd', 1, 1)"),
        (("0 invoke send [[:send 1]]",), 1, "('send', 1) is not [:send key value]"),
        (("0 invoke send [[:poll]]",), 1, ":send contains ('poll',)"),
        (("0 invoke send [[:send 1.5 1]]",), 1, "key 1.5 is neither a number nor a string"),
        ((*GOOD, "1 invoke send [[:send 1 1]]"), 3, "value 1 is sent to key 1 a second time"),
        ((GOOD[0], "0 invoke poll [[:poll]]"), 2, "process 0 invokes :poll before that of PATH:1 ended"),
        ((GOOD[1],), 1, "process 0 completes :send, and has invoked nothing"),
        ((GOOD[0], "0 ok poll [[:poll {}]]"), 2, "process 0 completes :poll, and has invoked :send"),
        ((GOOD[0], "0 ok send []"), 2, "0 micro-operations complete 1 invoked ones"),
        (
            (GOOD[0], "0 ok send [[:send 1 [0 2]]]"),
            2,
            "('send', 1, (0, 2)) completes ('send', 1, 1): one of the two is wrong",
        ),
        (
            (GOOD[0], "0 info send nil", "0 invoke poll [[:poll]]"),
            3,
            "process 0 goes on after it crashed at PATH:2",
        ),
        ((*GOOD, GOOD[0].replace("1]]", "2]]")), 3, "the history ends before process 0 completes :send"),
        (("0 invoke poll [[:poll]]", "0 ok poll [[:poll]]"), 2, "a poll that succeeded has no result"),
        (
            ("0 invoke poll [[:poll]]", "0 ok poll [[:poll 3]]"),
            2,
            "a poll has 3, not a map of keys to messages",
        ),
        (
            ("0 invoke poll [[:poll]]", "0 ok poll [[:poll {1 [[-1 2]]}]]"),
            2,
            "a poll returned (-1, 2), not [offset value]",
        ),
        (
            ("0 invoke poll [[:poll]]", "0 ok poll [[:poll {1 5}]]"),
            2,
            "a poll has 5 for key 1, not a list of [offset value]",
        ),
        (
            ("0 invoke poll [[:poll]]", "0 ok poll [[:poll {}]], :rebalance-log 5"),
            2,
            ":rebalance-log is 5, not a list of maps",
        ),
        (("0 invoke assign 5", "0 ok assign 5"), 1, ":assign has 5, not a list of keys"),
    ],
)
def test_what_is_wrong_in_an_operation_is_told(
    tmp_path: Path, lines: tuple[str, ...], line: int, message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        imported(tmp_path, {"history.edn": ops(*lines)})
    path = str(tmp_path / "history.edn")
    assert caught.value.message == f"{path}:{line}: {message}".replace("PATH", path)
    assert not (tmp_path / "history" / "history.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (":index 1,", ":index 0,", "2: :index is 0 after 0: an operation is doubled, or out of order"),
        (":index 1,", ":index 2,", "2: :index is 2, and 1 was expected: operations are missing"),
        (":index 0,", ":index 5,", "1: :index is 5, and 0 was expected: operations are missing"),
        (":index 1,", ":index :a,", "2: :index is 'a', not a natural number"),
        (":index 1,", "", "2: some operations have :index and some have none"),
        (":time 10,", "", "2: some operations have :time and some have none"),
        (":time 10,", ":time 1.5,", "2: :time is 1.5, not a number of nanoseconds"),
        (":f :send, :value [[:send 1 [", ":value [[:send 1 [", "2: the operation has no :f"),
    ],
)
def test_indices_and_times_are_checked(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        imported(tmp_path, {"history.edn": ops(*GOOD).replace(old, new)})
    assert caught.value.message == f"{tmp_path}/history.edn:{message}"


def test_an_incomplete_history_can_be_accepted(tmp_path: Path) -> None:
    text = ops(*GOOD, "0 invoke send [[:send 1 2]]", "1 ok poll [[:poll {}]]").replace(
        ":index 1,", ":index 1, :x 1,"
    )
    manifest, events = imported(tmp_path, {"history.edn": text}, ImportOptions(incomplete=True))
    assert not manifest.complete
    assert tell(manifest, events) == [
        "0 process 0: SEND ? keys/1 0:0",
        "10 process 0: SEND ok keys/1 0:0 @0",
        "20 process 0: SEND ? keys/1 0:1",
    ]
