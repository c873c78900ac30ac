"""VolcanoJobs: reading, expansion, plugins, policies, phases, status, and what brings one in line."""
