"""Which chunks of a data set come and go: one file for each rule, and the board of facts they decide from. Pure.

Called by `chunks` and the simulator. May be asked at any time and as often as one likes:
never remembers what cannot be seen on the board again.
"""
