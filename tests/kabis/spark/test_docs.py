"""docs/kabis-spark.md: its example, run as it is written, and the tests that it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kabis.spark.lake import PATIENCE_S
from tests.pages import DOCS, read_blocks
from veristream.kabis.client.administration import act_all
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.spark.options import BATCH_READ, BATCH_WRITE, STREAM_READ, STREAM_WRITE
from veristream.kabis.spark.rows import ARROW

PAGE = "kabis-spark.md"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("java")
def test_the_example_runs(tmp_path: Path) -> None:
    blocks = [block for _, block in read_blocks(PAGE, "python")]
    assert len(blocks) == 2
    folder = ClusterFolder(tmp_path / "kabis-data")
    with Cluster(folder) as cluster:
        cluster.create()
        cluster.start()
        access = Access(folder)
        topics = [SetTopic(name, 1, validated=True) for name in ("orders", "large")]
        act_all(access.genesis, access.admin(), access.author(ADMIN), topics)
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert done.returncode == 0, done.stderr


def test_the_page_has_every_column_and_every_option() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    tables = "\n".join(line for line in text.splitlines() if line.startswith("| `"))
    named = set(re.findall(r"`(\w+)`", tables))
    options = {*BATCH_READ, *STREAM_READ, *BATCH_WRITE, *STREAM_WRITE}
    assert options | set(ARROW.names) <= named


def test_every_test_that_the_page_names_exists() -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) == 4
    for file, test in named:
        written = (DOCS.parent / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in written
