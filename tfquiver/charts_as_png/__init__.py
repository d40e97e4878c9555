"""Pictures as PNG files, drawn with matplotlib where it is installed, also without a display.

Called by commands that draw (`sim`, `plan`) and the demo. Never imports matplotlib before something is drawn: it takes
a second.
"""
