"""Object code: the machine it is for, and how a process loads it."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as binding


@cache
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def host_machine() -> Any:
    """Creates a target machine for exactly this processor."""
    return _machine(binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())


def generic_machine() -> Any:
    """Creates a target machine for every processor of this architecture."""
    return _machine("generic", "")


def _machine(cpu: str, features: str) -> Any:
    _initialize()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small")


def load_object(code: bytes) -> Any:
    """Loads object code into this process; the engine owns the memory that the code is in.

    It uses llvmlite's own memory manager, which places code and constants close together. In a process with
    large reservations, LLVM's may place them too far apart, and then aborts.
    """
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), generic_machine(), use_lmm=True)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
