"""The outside behind ports: the log, the cluster, the database, the clock."""
