"""What a user may say in options, and what each wrong word is answered with."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from tests.kabis.wire.certified import found
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster.folder import ClusterFolder, create
from veristream.kabis.protocol.genesis import StorageMode
from veristream.kabis.spark.options import (
    BATCH_READ,
    BATCH_WRITE,
    STREAM_READ,
    STREAM_WRITE,
    Guarantee,
    read_options,
    write_options,
)
from veristream.kabis.spark.plan import Choice, Edge
from veristream.kabis.wire.handshake import Role
from veristream.kabis.wire.tls import Tls


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster")
    create(ClusterFolder(path), 1, StorageMode.TOLERANT)
    return path


def test_what_is_not_said(folder: Path) -> None:
    options = read_options({"cluster": str(folder), "topics": "orders"}, BATCH_READ)
    assert (options.topics, options.guarantee) == (("orders",), Guarantee.EXTENDED)
    assert (options.start, options.end) == (Choice(Edge.EARLIEST, {}), Choice(Edge.LATEST, {}))
    assert (options.rows_per_task, options.rows_per_trigger) == (100_000, None)
    assert options.fail_on_data_loss
    assert options.caller.name == "consumer"
    assert options.caller.author().signer.public == ClusterFolder(folder).key("consumer").public


def test_what_is_said(folder: Path) -> None:
    given = {
        "genesis": str(folder / "genesis.json"),
        "key": str(folder / "keys" / "producer"),
        "client": "producer",
        "keyEpoch": "3",
        "topics": "orders, clicks,orders",
        "guarantee": "basic",
        "startingIndex": '{"orders": {"0": 7, "1": "latest"}, "clicks": {"0": -2, "1": -1}}',
        "maxRowsPerTask": "10",
        "maxRowsPerTrigger": "20",
        "failOnDataLoss": "False",
        "timeoutSeconds": "1.5",
    }
    options = read_options(given, STREAM_READ)
    assert (options.topics, options.guarantee) == (("orders", "clicks"), Guarantee.BASIC)
    assert options.start == Choice(
        Edge.EARLIEST,
        {
            ("orders", 0): 7,
            ("orders", 1): Edge.LATEST,
            ("clicks", 0): Edge.EARLIEST,
            ("clicks", 1): Edge.LATEST,
        },
    )
    assert (options.rows_per_task, options.rows_per_trigger) == (10, 20)
    assert not options.fail_on_data_loss
    assert (options.caller.name, options.caller.timeout_s) == ("producer", 1.5)
    assert options.caller.author().key_epoch == 3
    by_folder = read_options({"cluster": str(folder), "topics": "a"}, BATCH_READ)
    assert options.caller.genesis == by_folder.caller.genesis


JSON_HINT = 'use "earliest", "latest" or JSON like {"orders": {"0": 17, "1": "latest"}}'


@pytest.mark.parametrize(
    ("option", "value", "told", "hint"),
    [
        ("topics", "", "option topics is missing", "name one topic or several"),
        ("topics", "a,b c", "option topics: 'b c' is not a topic name", "name one topic or several"),
        ("guarantee", "exact", "option guarantee: 'exact'", "use basic or extended"),
        ("startingIndex", "first", "option startingIndex: 'first' is not valid", JSON_HINT),
        ("startingIndex", "[1]", "option startingIndex: '[1]' is not valid", JSON_HINT),
        ("startingIndex", '{"a": {"0": true}}', """'{"a": {"0": true}}' is not valid""", JSON_HINT),
        ("endingIndex", '{"a": {"0": -3}}', """option endingIndex: '{"a": {"0": -3}}' is""", JSON_HINT),
        ("endingIndex", '{"b": {"0": 1}}', "option endingIndex: b is not read", "add it to option topics"),
        ("maxRowsPerTask", "0", "option maxRowsPerTask: '0'", "use a whole number, 1 or more"),
        ("timeoutSeconds", "nan", "option timeoutSeconds: 'nan'", "use a number of seconds greater than 0"),
        ("client", "nobody", "has no key for 'nobody'", "it has admin, consumer, producer"),
        ("cluster", "/nowhere", "option cluster: there is no cluster in /nowhere", "kabis up --data"),
        ("keyEpoch", "1", "option cluster excludes genesis and key", "name the folder of a cluster"),
        ("genesis", "g.json", "option cluster excludes genesis and key", "name the folder of a cluster"),
        ("guarante", "basic", "unknown option guarante", "did you mean guarantee?"),
        ("rows", "basic", "unknown option rows", "options are cluster, genesis, key"),
        ("maxRowsPerTrigger", "5", "unknown option maxRowsPerTrigger", "did you mean maxRowsPerTask?"),
    ],
)
def test_each_wrong_option_is_named(folder: Path, option: str, value: str, told: str, hint: str) -> None:
    given = {"cluster": str(folder), "topics": "a", option: value}
    with pytest.raises(ModelError) as caught:
        read_options(given, BATCH_READ)
    assert told in caught.value.message
    assert "option" in caught.value.message
    assert caught.value.hint.startswith(hint) or hint in caught.value.hint


def test_a_cluster_is_named_in_one_way(folder: Path) -> None:
    with pytest.raises(ModelError, match="option cluster is missing"):
        read_options({"topics": "a"}, BATCH_READ)
    given = {"topics": "a", "genesis": str(folder / "genesis.json")}
    with pytest.raises(ModelError, match="option key is missing"):
        read_options(given, BATCH_READ)
    given["key"] = str(folder / "genesis.json")
    with pytest.raises(ModelError, match="option client is missing"):
        read_options(given, BATCH_READ)
    given["client"] = "consumer"
    with pytest.raises(ModelError, match=r"option key: .*genesis\.json"):
        read_options(given, BATCH_READ)


def test_tls_of_a_cluster_and_of_a_client_elsewhere(folder: Path, tmp_path: Path) -> None:
    certified = found(tmp_path / "made")
    (tmp_path / "ca.pem").write_text(certified.ca)
    mine = certified.certify("mine")
    assert mine.certificate and mine.key
    assert read_options({"cluster": str(folder), "topics": "a"}, BATCH_READ).caller.tls is None

    cluster = tmp_path / "cluster"
    shutil.copytree(folder, cluster)
    (cluster / "kabis.toml").write_text(f'[tls]\nca = "{tmp_path}/ca.pem"\n')
    caller = read_options({"cluster": str(cluster), "topics": "a"}, BATCH_READ).caller
    assert caller.tls == caller._identity(Role.CONSUMER).tls == Tls(certified.ca)

    given = {"genesis": str(folder / "genesis.json"), "key": str(folder / "keys" / "consumer")}
    given |= {"client": "consumer", "topics": "a"}
    assert read_options(given, STREAM_READ).caller.tls is None
    told = {"tlsCa": str(tmp_path / "ca.pem")}
    assert read_options(given | told, STREAM_READ).caller.tls == Tls(certified.ca)
    told |= {"tlsCertificate": str(mine.certificate), "tlsKey": str(mine.key)}
    caller = read_options(given | told, STREAM_READ).caller
    assert caller.tls == Tls(certified.ca, mine.certificate, mine.key)
    assert pickle.loads(pickle.dumps(caller)) == caller  # it is sent to the tasks

    for wrong, message in (
        ({"tlsKey": "a"}, "tlsCertificate and tlsKey must be given together"),
        ({"tlsKey": "a", "tlsCertificate": "b"}, "option tlsCa is missing"),
        ({"tlsCa": str(tmp_path / "nothing")}, r"cannot read .*nothing"),
        ({"tlsCa": str(mine.key)}, r"option tlsCa: `ca` under \[tls\] has no certificate"),
        (told | {"tlsKey": str(tmp_path / "nothing")}, r"option tlsCa: .*nothing is missing"),
    ):
        with pytest.raises((ModelError, EnvironmentFailure), match=message):
            read_options(given | wrong, STREAM_READ)
    with pytest.raises(ModelError, match="excludes genesis and key, and the options of TLS"):
        read_options({"cluster": str(folder), "topics": "a", "tlsCa": "a"}, STREAM_READ)


def test_the_latest_key_is_used(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(folder, path)
    cluster = ClusterFolder(path)
    fresh = cluster.draw_key("producer")
    cluster.adopt_key("producer", 1)
    author = write_options({"cluster": str(path)}, BATCH_WRITE).caller.author()
    assert (author.key_epoch, author.signer.public) == (1, fresh.public)


def test_what_a_writer_is_told(folder: Path, tmp_path: Path) -> None:
    options = write_options(
        {"cluster": str(folder), "topic": "a", "checkpointlocation": "/x"}, STREAM_WRITE
    )
    assert (options.topic, options.journal) == ("a", folder / "journals" / "producer")
    assert write_options({"cluster": str(folder), "writerId": "w"}, BATCH_WRITE).writer_id == "w"
    for wrong, told in (
        ({"writerId": "w"}, "unknown option writerId"),
        ({"topic": "a b"}, "option topic: 'a b' is not a valid name"),
    ):
        with pytest.raises(ModelError, match=told):
            write_options({"cluster": str(folder), **wrong}, STREAM_WRITE)
    bare = {
        "genesis": str(folder / "genesis.json"),
        "key": str(folder / "keys" / "producer"),
        "client": "producer",
    }
    with pytest.raises(ModelError, match="option journal is missing"):
        write_options(bare, BATCH_WRITE)
    assert write_options({**bare, "journal": str(tmp_path)}, BATCH_WRITE).journal == tmp_path
