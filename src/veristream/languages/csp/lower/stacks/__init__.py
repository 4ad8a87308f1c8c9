"""Recursion before a `;`: what waits behind it is a stack in the state, whose height data may bound.

`recursion` decides whether a process needs stacks, `frames` takes terms apart, and `write` writes the
variables and statements of a component's stack.
"""
