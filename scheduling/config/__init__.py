"""The scheduler's configuration: ``volcano-scheduler.conf`` read, judged and given types (scheduling section 1)."""
