"""Which jobs run now, over accelerators, cache and remote I/O together (SiloD section 5). Pure.

Called by the simulator; written for an outside scheduler as well, which has jobs and capacity. A scheduler only says in
which order jobs may run; it never places them on machines, and never allocates cache or bandwidth: policies do.
"""
