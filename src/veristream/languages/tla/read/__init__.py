"""From the texts of modules and configurations to syntax."""
