"""Numbers as people write and read them: sizes given as 10GiB (`sizes`), times given as 90s or 2d (`durations`), and
amounts told in words (`amounts`).

Called by every side that takes a flag or prints a figure. Pure: never knows what is measured.
"""
