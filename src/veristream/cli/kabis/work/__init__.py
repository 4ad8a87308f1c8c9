"""What the commands of Kabis do; imported when one of them runs."""
