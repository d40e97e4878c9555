"""What schemes are told: numbers, weights, and patterns of files. They come from users and other machines, and what is
wrong is named. Pure.

Called by schemes when they are made, and by `sampled_epochs` for how many draws there may be. Never draws.
"""
