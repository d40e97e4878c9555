"""`tfquiver dataset`: all data sets, whose they are, how they are cached and where they are kept (`dataset`,
`placing`); and those that have names (`create`, `prefetch`, `pin`, `unpin`, `evict`, `refresh`: `commands`). `tfquiver
digest`, of data sets with names and of files; `tfquiver warm`; `tfquiver pack`, which makes the files of one.

Called by people, through the command line. Never decides anything: the coordinator refuses what cannot be. Reads no
files but those that `pack` makes records of: nodes do.
"""
