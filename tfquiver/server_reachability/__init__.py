"""Whether servers answer: those that do not are noticed, waited for, asked again, and people are told of it meanwhile,
in words, now and then. Whether a node is at its Unix socket is said by its first frame (`greeting`), and whether it is
the one that was told what it must know, and not another that was started there, by a kept connection (`told_nodes`).

Called by whoever depends on a server: clients, the command line. Never decides what is done without it.
"""
