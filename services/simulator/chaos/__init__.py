"""Simulation with faults: the production services in one process, from one seed, with everything that can go wrong.

``plan`` draws a seed's setting and steps, ``playing`` plays them on a ``world`` (``workload`` for what users do,
``mishaps`` for what goes wrong). ``network`` holds the faults between the services and their world, which they reach by
``apilink`` and ``loglink``; ``driving`` and ``lanes`` turn them by hand.

``judge`` looks at the API server's truth after every step, with what ``inspecting`` and ``witness`` know of what could
be known; ``decided`` looks at each decision by itself, ``refolding`` folds the log again at each snapshot. ``healing``
asks for liveness at the end, ``agreeing`` for what must agree then. ``bookkeeping`` is the database.

``reduce`` makes a failing seed short, ``run`` plays many seeds.
"""
