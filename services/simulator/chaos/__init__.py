"""Simulation with faults: the production services in one process, from one seed, with everything that can go wrong.

``plan`` draws a seed's setting and steps, ``world`` plays them, ``network`` holds the faults between the services and
their world, ``judge`` looks at the API server's truth after every step, ``healing`` asks for liveness at the end,
``reduce`` makes a failing seed short, ``run`` plays many seeds.
"""
