"""Models with mistakes in them: mutated texts of CSP# and UPPAAL, checked one by one."""
