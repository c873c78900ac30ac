"""The controllers: PodGroups for pods, pods for VolcanoJobs, the states of queues, deletion by owner."""
