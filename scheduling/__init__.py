"""The heart: pure computation on the log's content. Opens nothing, reads no clock, knows no event loop."""
