"""`tfquiver pack`: TFRecord files made of what people have: image folders, WebDataset tars, Parquet, Hugging Face data
sets on disk.

Called by the command line only. A part of the source becomes one file, whole or not at all, so that a run that was
killed goes on with the parts that are missing. Never holds more of a part in memory than a record, or what a Parquet
reader gives at a time; never writes over a file of another pack.
"""
