"""State: the fold of the log, and nothing else."""
