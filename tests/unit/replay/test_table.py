"""Tables: what stands for a model's actions; each fits the model beside it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from veristream.errors import ModelError
from veristream.history.properties import Property
from veristream.known import find_shipped
from veristream.library import load
from veristream.replay.counterparts import Call, Case, Deliver, Do, Itself, Missing, Return, Sent
from veristream.replay.run import find_property
from veristream.replay.table import FILE_NAME, Chosen, Messages, Table, find_table, read_tables

TABLES = sorted(find_shipped().glob(f"*/{FILE_NAME}"))

SMALL = """
[[table]]
file = "m.py"
broker = "kafka"

[table.constants]
N = 1

[table.messages]
wire = { sender = "from", key = ["number"] }

[table.properties]
never_read = "aborted is never read"

[table.actions]
open = { call = "open", sends = "InitProducerId", into = "wire" }
begin = { call = "begin" }
produce = { sends = "Produce", into = "wire" }
take = { deliver = "wire", answer = "refused" }
hear = [{ before = { phase = "ADDING" }, itself = "hidden" }, { returns = "any" }]
poll = { do = "read" }
fail = { missing = "nobody fails" }

[[table.settings]]
set = { "broker.a" = "1" }

[[table.settings]]
constants = { N = 2 }
set = { "broker.a" = "2" }
"""


def test_a_table_says_what_stands_for_each_action() -> None:
    assert read_tables(SMALL, "replay.toml") == (
        Table(
            "m.py",
            "kafka",
            {
                "open": (Case(Call("open", "InitProducerId", "wire")),),
                "begin": (Case(Call("begin")),),
                "produce": (Case(Sent("Produce", "wire")),),
                "take": (Case(Deliver("wire", "refused")),),
                "hear": (Case(Itself("hidden"), {"phase": "ADDING"}), Case(Return("any"))),
                "poll": (Case(Do("read")),),
                "fail": (Case(Missing("nobody fails")),),
            },
            {"wire": Messages("from", ("number",))},
            {"never_read": Property.ABORTED},
            {"N": 1},
            (Chosen({}, {"broker.a": "1"}), Chosen({"N": 2}, {"broker.a": "2"})),
        ),
    )


def test_settings_go_by_the_constants_of_the_run() -> None:
    (table,) = read_tables(SMALL, "replay.toml")
    assert table.settings({}) == {"broker.a": "1"}
    assert table.settings({"N": 2}) == {"broker.a": "2"}


STEPWISE = """
[[table]]
file = "m.py"
broker = "kafka"

[table.messages]
wire = { sender = "from", key = ["number"] }

[table.properties]
never_twice = "its steps"

[table.actions]
take = [
    { adds = { code = "BUSY" }, deliver = "wire", answer = "CONCURRENT_TRANSACTIONS" },
    { deliver = "wire", answer = "later" },
]
hear = { returns = "ok", epoch = "epoch" }

[[table.settings]]
action = "time_out"
set = { "producer.a" = "1" }
"""


def test_an_answer_may_come_later_and_an_epoch_is_the_models() -> None:
    (table,) = read_tables(STEPWISE, "replay.toml")
    assert table.actions == {
        "take": (
            Case(Deliver("wire", "CONCURRENT_TRANSACTIONS"), adds={"code": "BUSY"}),
            Case(Deliver("wire", None)),
        ),
        "hear": (Case(Return("ok", "epoch")),),
    }
    assert table.properties == {"never_twice": None}
    assert find_property(table, "never_twice(1)") is None
    with pytest.raises(ModelError, match="no property of a history stands for another"):
        find_property(table, "another")


def test_settings_go_by_the_actions_of_the_run() -> None:
    (table,) = read_tables(STEPWISE, "replay.toml")
    assert table.settings({}) == table.settings({}, ["hear"]) == {}
    assert table.settings({}, ["hear", "time_out"]) == {"producer.a": "1"}


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("[[table]", "[[table]]", "replay.toml is not TOML"),
        ("colour = 1\n[[table]]", "[[table]]", "replay.toml has to consist of tables"),
        ('file = ""', 'file = "m.py"', "table 1: `file` has to be a text"),
        ('colour = "red"', 'broker = "kafka"', "table 1: unknown key `colour`"),
        ("begin = { colour = 1 }", 'begin = { call = "begin" }', "begin does not say what stands for it"),
        ('begin = "begin"', 'begin = { call = "begin" }', "begin has to be a table"),
        ('{ deliver = "wires",', '{ deliver = "wire",', "take: `wires` is not among the messages"),
        ('answer = "no"', 'answer = "refused"', "take: `no` is no outcome"),
        ('sends = "Produce" }', 'sends = "Produce", into = "wire" }', "`sends` and `into` belong together"),
        ('never_read = "never"', 'never_read = "aborted is never read"', "`never` is no property"),
        ('"from" }', '"from", key = ["number"] }', "messages of wire need a sender and a key"),
        ('N = "1"', "N = 1", "`N` of constants has to be a number"),
        (
            'key = ["number"], first = 1 }',
            'key = ["number"] }',
            "wire: `first` has to be one of oldest",
        ),
    ],
)
def test_a_wrong_table_is_an_error_with_its_place(wrong: str, right: str, message: str) -> None:
    assert SMALL.count(right) == 1
    with pytest.raises(ModelError) as caught:
        read_tables(SMALL.replace(right, wrong), "replay.toml")
    assert message in caught.value.message
    assert caught.value.message.startswith("replay.toml")


PLAIN = """
[[table]]
file = "q.py"
broker = "rabbitmq"

[table.constants]
CONFIRMS = 0

[table.messages]
wire = { from = "P(0)" }
queue = { from = "P(0)" }
confirms = { from = "P(0)" }

[table.observed]
in_order = "handled in order"

[table.actions]
publish = { call = "publish", sends = "Publish", into = "wire", behind = true }
enqueue = [
    { constants = { CONFIRMS = 1 }, deliver = "wire", sends = "Confirm", into = "confirms" },
    { deliver = "wire" },
]
receive = { call = "receive", takes = "queue", returns = "ok" }
cut = { do = "cut", loses = ["wire"] }
"""


def test_messages_may_be_plain_values_and_calls_may_say_more() -> None:
    (table,) = read_tables(PLAIN, "replay.toml")
    assert table.messages["wire"] == Messages("P(0)", (), newest=False)
    assert table.observed == {"in_order": "handled in order"}
    assert table.values({"N": 2}) == {"CONFIRMS": 0, "N": 2}
    assert table.actions == {
        "publish": (Case(Call("publish", "Publish", "wire", behind=True)),),
        "enqueue": (
            Case(Deliver("wire", "ok", "Confirm", "confirms"), constants={"CONFIRMS": 1}),
            Case(Deliver("wire")),
        ),
        "receive": (Case(Call("receive", returns="ok", takes="queue")),),
        "cut": (Case(Do("cut", ("wire",))),),
    }


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ('queue = { from = "P(0)", key = ["n"] }', 'queue = { from = "P(0)" }', "queue: unknown key `key`"),
        ("queue = { from = 1 }", 'queue = { from = "P(0)" }', "`from` has to be a text"),
        (
            'queue = { sender = "s", key = [] }',
            'queue = { from = "P(0)" }',
            "messages of queue need a sender",
        ),
        ('takes = "queues"', 'takes = "queue"', "receive: `queues` is not among the messages"),
        ('returns = "well"', 'returns = "ok"', "receive: `well` is no outcome"),
        ("behind = 1", "behind = true", "publish: `behind` has to be true or false"),
        ('returns = "ok", behind = true', 'returns = "ok"', "receive: `behind` has to be true or false"),
        ('loses = ["wires"]', 'loses = ["wire"]', "cut: `wires` is not among the messages"),
        ('loses = "wire"', 'loses = ["wire"]', "`loses` has to be a list of texts"),
        ('into = "confirm" }', 'into = "confirms" }', "enqueue: `confirm` is not among the messages"),
        (
            'wire = { from = "P(0)", first = "newest" }',
            'wire = { from = "P(0)" }',
            "publish: what stays behind is not the first of `wire` to go on",
        ),
        ("in_order = 1", 'in_order = "handled in order"', "`in_order` has to be a text"),
    ],
)
def test_what_calls_say_may_be_wrong(wrong: str, right: str, message: str) -> None:
    assert PLAIN.count(right) == 1
    with pytest.raises(ModelError) as caught:
        read_tables(PLAIN.replace(right, wrong), "replay.toml")
    assert message in caught.value.message


def test_a_model_without_a_table_cannot_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="beside it, so its actions mean nothing"):
        find_table(tmp_path / "m.py", "kafka")
    (tmp_path / FILE_NAME).write_text(SMALL, encoding="utf-8")
    assert find_table(tmp_path / "m.py", "kafka").file == "m.py"
    with pytest.raises(ModelError, match=r"has no table for m.py on nsq") as caught:
        find_table(tmp_path / "m.py", "nsq")
    assert caught.value.hint == "it has m.py on kafka"


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.parent.name)
def test_a_table_names_exactly_the_actions_of_its_model(path: Path) -> None:
    for table in read_tables(path.read_text(encoding="utf-8"), str(path)):
        network = load(path.parent / table.file)
        labels = {
            edge.label.name for component in network.components for edge in component.edges if edge.label
        }
        assert set(table.actions) == labels
        assert {one.name.partition("(")[0] for one in network.properties} >= set(table.properties)
        assert table.constants.items() <= defaults(path.parent / table.file).items()


def defaults(path: Path) -> dict[str, int]:
    """Returns the constants of a Python model that are numbers."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("constant"), [ast.Constant(int(value))])):
                found[name] = value
            case _:
                pass
    return found
