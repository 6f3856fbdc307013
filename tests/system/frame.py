"""Frames, built byte by byte. All lengths without FCS; EtherType 0x88b5 is local experimental (IEEE 802)."""
import struct

BROADCAST = "ff:ff:ff:ff:ff:ff"
EXPERIMENTAL = 0x88B5


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def host_mac(number):
    """MAC address of the bed's host `number`, counted from 1."""
    return "02:00:00:00:0a:%02x" % number


def tag(vid, pcp=0, tpid=0x8100):
    return struct.pack("!HH", tpid, (pcp << 13) | vid)


def frame(destination, source, payload=b"", tags=b"", length=60, ethertype=EXPERIMENTAL):
    head = mac_bytes(destination) + mac_bytes(source) + tags + struct.pack("!H", ethertype) + payload
    return head.ljust(length, b"\0")


def push(untagged, vid, pcp=0):
    """`untagged` with a tag in front."""
    return untagged[:12] + tag(vid, pcp) + untagged[12:]


def pop(tagged):
    """`tagged` without its outer tag."""
    return tagged[:12] + tagged[16:]


def named(text, length):
    return bytes.fromhex(text.replace(" ", "")).ljust(length, b"\0")


# The frames of the field cases. Sources: host 1, host 2 where the frame goes to host 1.
F1_BROADCAST = named("ffffffffffff 020000000a01 88b5 543031", 60)
F2_UNICAST_TO_1 = named("020000000a01 020000000a02 88b5 543032", 60)
F3_VID_10_PCP_5 = named("ffffffffffff 020000000a01 8100a00a 88b5 543033", 64)
F5_VID_4095 = named("ffffffffffff 020000000a01 81000fff 88b5 543035", 64)
F6_VID_20 = named("ffffffffffff 020000000a01 81000014 88b5 543036", 64)
F7_STAG_CTAG = named("ffffffffffff 020000000a01 88a80064 8100000a 88b5 543037", 68)
F8_TWO_TAGS = named("ffffffffffff 020000000a01 8100000a 81000014 88b5 543038", 68)
F9_LLDP = named("0180c200000e 020000000a01 88cc", 60)
F10_STP = named("0180c2000000 020000000a01 0026 424203", 60)
F11_OUTSIDE_RESERVED = named("0180c2000010 020000000a01 88b5 543131", 60)
F12_GROUP_SOURCE = named("ffffffffffff 01005e010203 88b5 543132", 60)
F13_ZERO_SOURCE = named("ffffffffffff 000000000000 88b5 543133", 60)
F14_CUT_TAG = named("ffffffffffff 020000000a01 8100000a", 16)
F15_RUNT = named("ffffffffffff 020000000a01 88", 13)
F16_SOLICITED_NODE = named("3333ff0000b1 020000000a03 88b5 543136", 60)


def numbered(number, source, destination=BROADCAST, tags=b"", length=60):
    return frame(destination, source, b"NUMB" + struct.pack("!I", number), tags, length)


def number_of(received):
    """The number of a frame made by numbered(), whatever its tags; None of another frame."""
    position = received.find(b"NUMB", 14, 30)
    return None if position < 0 else struct.unpack("!I", received[position + 4 : position + 8])[0]
