"""What an operator needs: a supervisor, checks of a folder and a cluster, backups, systemd units."""
