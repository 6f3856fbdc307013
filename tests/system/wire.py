"""Raw frames of one interface, seen from inside its namespace."""
import errno
import select
import socket
import struct
import time

from agent import SLOW

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23
SO_RCVBUFFORCE = 33
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
QUIET_SECONDS = 0.15  # how long nothing must come before "nothing comes" is believed


class Wire:
    """A packet socket. The kernel cuts the outer tag out of what it receives; it is put back here."""

    def __init__(self, pod, ifname):
        with pod.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.socket.bind((ifname, ETH_P_ALL))

    def close(self):
        self.socket.close()

    def send(self, *frames):
        for frame in frames:
            self._despite_past_down(self.socket.send, frame)

    @staticmethod
    def _despite_past_down(call, *arguments):
        """An interface that was down once leaves one ENETDOWN on its sockets, told whenever it is up again."""
        try:
            return call(*arguments)
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise
            return call(*arguments)

    def receive_one(self, timeout):
        """The next frame, or None when none came in time."""
        if not select.select([self.socket], [], [], max(timeout, 0))[0]:
            return None
        try:
            data, ancillary, _, _ = self._despite_past_down(self.socket.recvmsg, 70000, socket.CMSG_SPACE(20), socket.MSG_DONTWAIT)
        except BlockingIOError:  # there was nothing but the ENETDOWN
            return self.receive_one(timeout)
        for level, kind, value in ancillary:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", value[:20])
                if status & TP_STATUS_VLAN_VALID:
                    tpid = tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                    data = data[:12] + struct.pack("!HH", tpid, tci) + data[12:]
        return data

    def receive(self, count=None, timeout=1.0, quiet=QUIET_SECONDS):
        """Frames until `count` have come and a quiet moment after them shows that no more do."""
        frames = []
        deadline = time.monotonic() + timeout * SLOW
        while True:
            enough = count is None or len(frames) >= count
            wait = quiet if enough else deadline - time.monotonic()
            received = self.receive_one(wait)
            if received is None:
                return frames
            frames.append(received)

    def drain(self):
        while self.receive_one(0) is not None:
            pass
