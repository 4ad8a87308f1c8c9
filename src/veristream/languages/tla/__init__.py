"""TLA+, as TLC reads it, compiled to Python and explored value by value.

In order: `read` turns texts into syntax, `scope` finds what names mean, `levels` says what depends on
states and steps, `code` compiles, `specification` puts it together, and `system` is what a search explores.
`docs/tla.md` describes the language.
"""
