"""Whether Spark's own configuration names a cluster; asked by checks that may never need Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

_MASTER = re.compile(r"local(\[.+\])?$|yarn$|(spark|k8s)://")
_MASTER_LINE = re.compile(r"^\s*spark\.master[\s=:]+\S", re.MULTILINE)


def names_cluster(environment: Mapping[str, str]) -> bool:
    """Whether Spark's own configuration names a cluster: `spark-submit` started this process, or one of
    SPARK_REMOTE, MASTER, PYSPARK_SUBMIT_ARGS and spark-defaults.conf does."""
    if "PYSPARK_GATEWAY_PORT" in environment or environment.get("SPARK_REMOTE"):
        return True
    words = environment.get("PYSPARK_SUBMIT_ARGS", "").split()
    if any(word.startswith("--master") or "spark.master=" in word for word in words):
        return True
    if _MASTER.match(environment.get("MASTER", "")):  # other programs use MASTER too
        return True
    return any(_MASTER_LINE.search(text) for text in _defaults(environment))


def _defaults(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields the text of spark-defaults.conf, if there is one."""
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (home and os.path.join(home, "conf"))
    if folder:
        with suppress(OSError, UnicodeDecodeError):
            yield (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8")
