"""Files of a data set that a scheme's patterns mean (`patterns`), found by parts of their paths where there are many of
both (`likely_patterns`). Pure.

Called by schemes that are told of files (`weighted`, `class_balanced`). Never lists a file: a data set's are known.
"""
