"""Code for what is watched besides the steps: a small object beside the relation of a network."""
