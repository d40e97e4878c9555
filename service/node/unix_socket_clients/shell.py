"""This node's end of a connection with somebody who is no reader: what those have in common."""

from __future__ import annotations

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.service.node.unix_socket_clients.frame_socket import FrameSocket, want_no_descriptors


class Shell:
    """`peer`: who is at the other end, for messages."""

    peer: str
    socket: FrameSocket  # set by the server, which makes the two for each other

    def on_frame(self, frame: frames.Frame, descriptors: list[int]) -> None:
        """Raises ProtocolError on a frame that does not belong here."""
        want_no_descriptors(frame, descriptors)
        if isinstance(frame, frames.Close):
            self.socket.bid_farewell(None)
        elif not isinstance(frame, frames.Ping) and not self.take(frame):
            raise errors.ProtocolError(f"{type(frame).__name__} frame: not expected from {self.peer} here")

    def take(self, frame: frames.Frame) -> bool:
        """Whether it belongs here."""
        raise NotImplementedError

    def on_gone(self) -> None:
        """The peer has gone."""

    def on_blocked(self, blocked: bool) -> None:
        """Little or nothing is sent: there is nothing to hold back."""
