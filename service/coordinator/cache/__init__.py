"""How data sets are cached: what is set for each, how much room there is, which chunks come and go (one file for each
rule, the board of facts they decide from), and what sessions and nodes see of it. Pure.

Called by the coordinator when a data set is read or set, when residency has changed, and with time; and by the
simulator. May be asked at any time and as often as one likes: a rule never remembers what cannot be seen on the board
again. Never waits, never journals, never dials a node.
"""
