"""A file system whose reads fail on purpose, served through /dev/fuse without any library.

    fault_fs.py MOUNTPOINT COMMAND...

mounts it in a private namespace, runs COMMAND inside and exits with its status, or with 77 where
this is not possible. The one file, MOUNTPOINT/x, holds little-endian 64-bit words that count up.
Each region of 64 KiB has a fault of its own; a fault marked "once" is gone at the second try.
"""
import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
import time

REGION = 1 << 16
SIZE = 12 * REGION
SKIPPED = 77
tried = set()


def once(where):
    first = where not in tried
    tried.add(where)
    return first


def read(offset, size):
    """(errno, bytes) for a read request of the kernel."""
    end = min(offset + size, SIZE)
    first = offset // 8
    words = struct.pack(f"<{end // 8 - first + 1}Q", *range(first, end // 8 + 1))
    data = words[offset - first * 8:end - first * 8]
    region = offset // REGION
    if region == 1:
        return errno.EIO, b""
    if region == 2 and once(region):  # half of it
        return 0, data[:size // 2]
    if region == 3:  # never more than a page
        return 0, data[:4096]
    if region == 4:  # never more than an odd number of bytes
        return 0, data[:1001]
    if region == 5:  # end of file inside the file
        return 0, b""
    if region == 6 and once(offset):
        return errno.EINTR, b""
    if region == 7:
        return errno.EAGAIN, b""
    if region == 8:
        time.sleep(1.5)
    if region == 9:
        time.sleep(0.2)
    return 0, data


def attributes(inode, mode, size):
    return struct.pack("<6Q10I", inode, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            os._exit(0)  # unmounted
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)

        def reply(data=b"", error=0):
            os.write(device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)

        if opcode == 26:  # INIT: version 7.31, asynchronous direct reads
            reply(struct.pack("<IIIIHHII", 7, 31, 131072, 0x8001, 12, 10, 131072, 0) + bytes(32))
        elif opcode == 1:  # LOOKUP
            reply(struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2, 0o100644, SIZE))
        elif opcode == 3:  # GETATTR
            reply(struct.pack("<QII", 0, 0, 0) +
                  (attributes(1, 0o40755, 0) if node == 1 else attributes(2, 0o100644, SIZE)))
        elif opcode == 14:  # OPEN, FOPEN_DIRECT_IO: answers reach the caller as they are
            reply(struct.pack("<QII", 1, 1, 0))
        elif opcode == 15:  # READ
            error, data = read(*struct.unpack_from("<QI", request, 48))
            reply(data, error)
        elif opcode == 17:  # STATFS
            reply(bytes(80))
        elif opcode in (18, 25, 29):  # RELEASE, FLUSH, RELEASEDIR
            reply()
        elif opcode not in (2, 36, 42):  # FORGET, INTERRUPT and BATCH_FORGET want no reply
            reply(error=errno.ENOSYS)


def main():
    mountpoint, command = sys.argv[1], sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, ms_private_rec = 0x20000, (1 << 18) | (1 << 14)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        return SKIPPED
    options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % device
    if (libc.unshare(clone_newns) != 0 or libc.mount(b"none", b"/", None, ms_private_rec, None) != 0
            or libc.mount(b"faultfs", mountpoint.encode(), b"fuse.faultfs", 0, options) != 0):
        return SKIPPED
    server = os.fork()
    if server == 0:
        serve(device)
    try:
        return subprocess.run(command, timeout=120, check=False).returncode
    finally:
        libc.umount2(mountpoint.encode(), 2)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


if __name__ == "__main__":
    sys.exit(main())
