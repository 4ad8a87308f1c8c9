"""From CSP# syntax to Networks: terms, their steps, and the components they become."""
