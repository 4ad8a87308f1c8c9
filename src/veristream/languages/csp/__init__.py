"""CSP#, the language of PAT's CSP module: from text to syntax, from syntax to Networks.

Text to tokens (`tokens`), to a parse tree (`read_tree`, `include`), to resolved syntax (`resolve`);
then to terms and their steps (`terms`, `steps`), to automata (`automata`) and to a Network
(`components`, `lower`). `docs/csp.md` describes the language and the rules.
"""
