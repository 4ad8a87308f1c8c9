"""Trust in message streams: prove the design, run it, audit what it did.

    import veristream as vs

    results = vs.check("model.net")

The names below are imported on first use, so importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veristream.lazy import load_on_use

if TYPE_CHECKING:
    from veristream.errors import EnvironmentFailure, ModelError
    from veristream.ir.property import Fairness
    from veristream.known import copy_models, list_models
    from veristream.library import (
        audit,
        check,
        export_promela,
        export_tla,
        load,
        load_all,
        reproduce,
        simulate,
    )
    from veristream.search.limits import Limits, Order
    from veristream.verdict import Holds, Invalid, Result, Trace, Unknown, Violated

__version__ = "0.1.0"

__all__ = [
    "EnvironmentFailure",
    "Fairness",
    "Holds",
    "Invalid",
    "Limits",
    "ModelError",
    "Order",
    "Result",
    "Trace",
    "Unknown",
    "Violated",
    "__version__",
    "audit",
    "check",
    "copy_models",
    "export_promela",
    "export_tla",
    "list_models",
    "load",
    "load_all",
    "reproduce",
    "simulate",
]

_HOMES = {
    "veristream.errors": ("EnvironmentFailure", "ModelError"),
    "veristream.ir.property": ("Fairness",),
    "veristream.known": ("copy_models", "list_models"),
    "veristream.library": (
        "audit",
        "check",
        "export_promela",
        "export_tla",
        "load",
        "load_all",
        "reproduce",
        "simulate",
    ),
    "veristream.search.limits": ("Limits", "Order"),
    "veristream.verdict": ("Holds", "Invalid", "Result", "Trace", "Unknown", "Violated"),
}

__getattr__ = load_on_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
