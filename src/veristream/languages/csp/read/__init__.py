"""From CSP# text to resolved syntax.

In order: `tokens` (lexer), `tree` (parser), `include` (all files of a model), `declarations` (constants,
variables, channels) and `resolve` (processes and assertions). `parse` runs them all.
"""
