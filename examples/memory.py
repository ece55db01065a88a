"""Memory that is really there: pages are touched, so that the kernel and Ray count them."""

MIB = 1 << 20


def hold(mib):
    """`mib` MiB of private memory."""
    return bytearray(b"\1") * (mib * MIB)
