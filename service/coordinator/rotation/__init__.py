"""Which chunks of a data set come and go: one file for each rule, the board of facts they decide from, and what joins
these with a data set's chunks and its sessions' samplers. Pure.

Called by `caching`, which is told of changes on the loop, and by the simulator. May be asked at any time and as often
as one likes: a rule never remembers what cannot be seen on the board again. Never waits, and tells nobody: what it has
decided is read from it.
"""
