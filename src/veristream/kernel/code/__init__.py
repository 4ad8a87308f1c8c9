"""Native code: LLVM modules as text, and compiled objects in memory."""
