"""What a cluster did over the last day, for people, in bounded memory: rates, jobs, epochs, how much of each chunk was
there; who has finished. Pure: time is an argument; but for `keeping_past`, which looks at the coordinator every ten
seconds.

Called by the coordinator's loop, by the call that tells of it, and where a job is explained that reads no more. Nothing
of it is durable, and nothing decides by it: never ask it what is so now.
"""
