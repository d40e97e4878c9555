"""An object store of one's own: a Google Cloud Storage emulator, behind a byte rate that can be counted on.

Called by the demo, tests and benchmarks. Never imported by what serves users' data.
"""
