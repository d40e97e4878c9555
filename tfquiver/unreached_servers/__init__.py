"""Servers that do not answer: noticed, waited for, asked again, and what people are told of it meanwhile, in words,
now and then.

Called by whoever depends on a server: clients, the command line. Never decides what is done without it.
"""
