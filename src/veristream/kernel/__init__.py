"""Compiles Networks to native code: the only package that imports llvmlite."""
