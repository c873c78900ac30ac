"""Making room by eviction: what preempt, reclaim and their gang-wise forms have in common.

``room`` finds the victims for one task on one node, ``trade`` carries out what one job needs as one statement and
records who made way for whom, ``needy`` says who may ask, ``bundles`` groups victims gang by gang.
"""
