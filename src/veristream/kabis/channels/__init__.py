"""The two channels of the paper as interfaces: storage parties, and the validators' ordering."""
