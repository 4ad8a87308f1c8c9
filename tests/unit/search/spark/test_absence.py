"""The error says why workers did not connect."""

from __future__ import annotations

import pytest

from veristream.search.spark.exchange import explain_absence

TRACEBACK = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
{error}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
java.lang.Exception: end
"""


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("veristream", "--py-files veristream.zip"),
        ("llvmlite", "--archives environment.tar.gz#environment"),
        ("lark", "--archives environment.tar.gz#environment"),
    ],
)
def test_a_package_that_workers_lack(name: str, way: str) -> None:
    failure = explain_absence(TRACEBACK.format(error=f"ModuleNotFoundError: No module named '{name}'"))
    assert failure.message == f"the Python of the cluster's workers has no {name}"
    assert failure.hint == f"install it there, or ship it: PYSPARK_SUBMIT_ARGS='{way} pyspark-shell'"


def test_a_module_of_a_package_that_workers_lack() -> None:
    failure = explain_absence(
        TRACEBACK.format(error="ModuleNotFoundError: No module named 'veristream.search'")
    )
    assert failure.message == "the Python of the cluster's workers has no veristream"


def test_another_error_of_a_worker() -> None:
    failure = explain_absence(TRACEBACK.format(error="FileNotFoundError: [Errno 2] No such file: '/gone'"))
    assert (
        failure.message == "the workers did not connect: FileNotFoundError: [Errno 2] No such file: '/gone'"
    )
