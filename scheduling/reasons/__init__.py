"""Why something waits: one typed tree, from card to node to pod to gang to queue.

The cycle puts these reasons on tasks and jobs; conditions, events, messages, metrics and ``explain`` are made of them.
``kinds`` are the reasons, ``causes`` what they are counted by, ``tree`` sums them up, ``texts`` puts them into words.
"""
