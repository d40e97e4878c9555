"""What each job and the store measure, and which job misses on purpose so that the benefit of caching is known. Pure.

Called by the coordinator with what heartbeats bring, and by the simulator; `probes` is all of it on the real system.
Says which job is to miss and what came of it; never tells a node itself, never decides who gets cache (`policies`). The
clock is an argument.
"""
