"""The language of the log: what is observed, what is decided, what came of it, and how it is written down."""
