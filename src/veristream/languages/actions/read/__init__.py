"""From a Python module's text to what it declares: types, constants, roles, actions."""
