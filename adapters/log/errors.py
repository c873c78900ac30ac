"""What can be wrong beside the log itself; apart, so that who only catches it loads no cryptography."""


class CheckpointError(Exception):
    """A key or a file of checkpoints cannot be used: names the file and what is wrong."""
