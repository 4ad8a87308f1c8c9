"""Native code for Networks: the only package that knows llvmlite."""
