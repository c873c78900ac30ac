"""Nodes as the scheduler sees them: their books, what may run on them, and how good a place they are."""
