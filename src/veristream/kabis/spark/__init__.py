"""`format("kabis")`: Spark reads and writes topics, in batches and as streams.

`register(spark)` registers the format with a session. PySpark is imported only when needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veristream.lazy import load_on_use

if TYPE_CHECKING:
    from veristream.kabis.spark.source import register

__all__ = ["register"]

__getattr__ = load_on_use(__name__, {"veristream.kabis.spark.source": ("register",)})
