"""What the processes tell each other, and what the coordinator journals, as protocol buffers.

Used by everybody, as the generated code beside them; `.ci/gen` makes it again. Only fields may be here, never
behaviour.
"""
