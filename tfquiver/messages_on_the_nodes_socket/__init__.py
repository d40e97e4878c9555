"""The byte protocols on the Unix sockets of one machine, as values and payloads: of readers, mounts and streams.

Called by both ends of a connection. Pure: never opens a socket, and bounds what it takes before it allocates; only
`frames_received` has descriptors, those that came with a frame, and closes what nobody may have.
"""
