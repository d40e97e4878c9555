"""What a cluster did over the last day, for people, in bounded memory: rates, jobs, epochs, how much of each chunk was
there. Pure: time is an argument; but for `keeping_past`, which looks at the coordinator every ten seconds.

Called by the coordinator's loop, and by the call that tells of it. Nothing of it is durable, and nothing decides by
it: never ask it what is so now.
"""
