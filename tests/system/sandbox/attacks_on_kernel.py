"""Attacks on the network, on namespaces and on the kernel's more dangerous calls."""

import platform

from tests.system.sandbox.attack import NAMESPACES, Attack, attacks
from turnwise.system.sandbox import ExecutionStop

_NETWORK = {
    "connects by TCP": """
        import socket
        attempt(socket.create_connection, ('127.0.0.1', host['tcp']), 0.3)
    """,
    "connects by TCP over IPv6": """
        import socket
        attempt(socket.create_connection, ('::1', host['tcp']), 0.3)
    """,
    "sends by UDP": """
        import socket
        address = ('127.0.0.1', host['udp'])
        attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', address))
    """,
    "connects to a unix path": """
        import socket
        attempt(lambda: socket.socket(socket.AF_UNIX).connect(host['unix']))
    """,
    "connects to an abstract unix name": """
        import socket
        attempt(lambda: socket.socket(socket.AF_UNIX).connect(chr(0) + host['abstract']))
    """,
    "sends a datagram from a socketpair": """
        import socket
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            for address in (chr(0) + host['abstract_datagram'], host['unix_datagram']):
                attempt(lambda: socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b'x', address))
                attempt(lambda: socket.socketpair(socket.AF_UNIX, kind)[0].sendmsg([b'x'], [], 0, address))
                attempt(lambda: socket.socketpair(socket.AF_UNIX, kind)[0].connect(address))
    """,
    "fetches a page": """
        import urllib.request
        attempt(urllib.request.urlopen, f"http://127.0.0.1:{host['tcp']}/", timeout=0.3)
    """,
    "connects by asyncio": """
        import asyncio
        attempt(lambda: asyncio.run(asyncio.open_connection('127.0.0.1', host['tcp'])))
    """,
    "opens a raw socket": "import socket\nattempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)",
    "opens a packet socket": "import socket\nattempt(socket.socket, 17, socket.SOCK_RAW, 3)",
    "opens a netlink socket": "import socket\nattempt(socket.socket, 16, socket.SOCK_RAW, 0)",
    "opens a vsock": "import socket\nattempt(socket.socket, 40, socket.SOCK_STREAM)",
    "opens a crypto socket": "import socket\nattempt(socket.socket, 38, 5)",
    "opens a socket by its number": "attempt(raw, 41, 198, 2, 1, 0)",
    "resolves a name": "import socket\nattempt(socket.getaddrinfo, 'example.invalid', 80)",
}

_CALLS = {
    "unshares a user namespace": "attempt(raw, 272, 97, 0x10000000)",
    "unshares a mount namespace": "attempt(raw, 272, 97, 0x00020000)",
    "unshares a net namespace with a user namespace": "attempt(raw, 272, 97, 0x50000000)",
    "unshares a time namespace": "attempt(raw, 272, 97, 0x80)",
    "clones into a user namespace": "attempt(raw, 56, 220, 0x10000000 | 17, 0, 0, 0, 0)",
    "clones by clone3": "attempt(raw, 435, 435, (0x10000000).to_bytes(8, 'little') + bytes(56), 64)",
    "enters another namespace": "attempt(raw, 308, 268, 0, 0)",
    "mounts a tmpfs": "attempt(raw, 165, 40, b'none', b'/usr', b'tmpfs', 0, 0)",
    "binds a mount": "attempt(raw, 165, 40, b'/', b'/tmp', b'', 4096, 0)",
    "lifts a mount": "attempt(raw, 166, 39, b'/proc', 2)",
    "pivots its root": "attempt(raw, 155, 41, b'/tmp', b'/tmp')",
    "opens a filesystem": "attempt(raw, 430, 430, b'proc', 0)",
    "clones a tree": "attempt(raw, 428, 428, -100, b'/', 1)",
    "moves a mount": "attempt(raw, 429, 429, 0, b'', -100, b'/tmp', 4)",
    "changes mount attributes": "attempt(raw, 442, 442, -100, b'/', 0, bytes(32), 32)",
    "asks to be traced": "attempt(raw, 101, 117, 0, 0, 0, 0)",
    "attaches to its parent": "attempt(raw, 101, 117, 16, os.getppid() or 1, 0, 0)",
    "attaches to the test": "attempt(raw, 101, 117, 0x4206, host['pid'], 0, 0)",
    "reads another's memory": "attempt(raw, 310, 270, host['pid'], 0, 0, 0, 0, 0)",
    "reads its own memory by the foreign call": "attempt(raw, 310, 270, os.getpid(), 0, 0, 0, 0, 0)",
    "writes another's memory": "attempt(raw, 311, 271, os.getpid(), 0, 0, 0, 0, 0)",
    "compares processes": "attempt(raw, 312, 272, os.getpid(), os.getpid(), 0, 0, 0)",
    "takes a descriptor of another": "attempt(raw, 438, 438, 0, 0, 0)",
    "adds a key": "attempt(raw, 248, 217, b'user', b'x', b'y', 1, -2)",
    "asks for a keyring": "attempt(raw, 250, 219, 0, -3, 1)",
    "loads a BPF map": "attempt(raw, 321, 280, 0, bytes(72), 72)",
    "opens a performance counter": "attempt(raw, 298, 241, bytes(128), 0, -1, -1, 0)",
    "handles page faults": "attempt(raw, 323, 282, 1)",
    "sets up io_uring": "attempt(raw, 425, 425, 8, bytes(120))",
    "makes a memory file": "attempt(os.memfd_create, 'x')",
    "makes a secret memory file": "attempt(raw, 447, 447, 0)",
    "makes System V memory": "attempt(raw, 29, 194, 0, 4096, 0o1600)",
    "makes a System V queue": "attempt(raw, 68, 186, 0, 0o1600)",
    "makes a POSIX queue": "attempt(raw, 240, 180, b'x', 0o100, 0o600, 0)",
    "changes its personality": "attempt(raw, 135, 92, 0x0040000)",
    "reads the kernel log": "attempt(raw, 103, 116, 3, bytes(4096), 4096)",
    "watches a filesystem": "attempt(raw, 300, 262, 0, 0)",
    "loads a module": "attempt(raw, 313, 273, 0, b'', 0)",
    "loads a kernel": "attempt(raw, 246, 104, 0, 0, 0, 0)",
    "reboots": "attempt(raw, 169, 142, 0, 0, 0, 0)",
    "swaps": "attempt(raw, 167, 224, b'/tmp/swap', 0)",
    "sets the clock": "attempt(time.clock_settime, time.CLOCK_REALTIME, 0)",
    "names the machine": "import socket\nattempt(socket.sethostname, 'mine')",
    "calls what came after the filter was written": """
        for number in (451, 452, 463, 467, 500):
            attempt(raw, number, number, 0, 0, 0, 0)
    """,
    "becomes root": """
        attempt(os.setresuid, 0, 0, 0)
        attempt(os.setgroups, [0])
    """,
    "runs a shell": "attempt(os.execv, '/bin/sh', ['sh'])",
    "runs a shell by subprocess": "import subprocess\nattempt(subprocess.run, ['/bin/sh', '-c', 'id'])",
    "runs an interpreter": "attempt(os.execv, sys.executable, [sys.executable, '-c', '1'])",
    "runs by execveat": "attempt(raw, 322, 281, -100, b'/bin/sh', 0, 0, 0)",
    "pushes keys into a terminal": "import fcntl\nattempt(fcntl.ioctl, 0, 0x5412, b'x')",
}

_TRICKS = {
    "runs a shell by os.system": "print('ESCAPED' if os.system('id') == 0 else 'blocked')",
    "has no capabilities and gains none": """
        header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        libc.capget(header, sets)
        bounding = [n for n in range(41) if libc.prctl(23, n, 0, 0, 0) == 1]
        full = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
        print('ESCAPED' if any(sets) or libc.capset(header, full) == 0 else 'blocked', list(sets))
        print('ESCAPED' if os.getuid() == 0 or libc.prctl(39, 0, 0, 0, 0) != 1 else 'blocked', bounding)
    """,
    "calls through the x32 table": "attempt(raw, 0x40000000 | 41, 9999, 1, 1, 0)",
    "lifts its own filter": """
        libc.prctl(22, 2, 0, 0, 0)
        attempt(raw, 272, 97, 0x10000000)
    """,
    "raises its limits": """
        import resource
        for which in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
            attempt(resource.setrlimit, which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    """,
    "escapes from a thread": """
        import threading
        def escape():
            attempt(raw, 41, 198, 2, 1, 0)
            attempt(read, host['canary'])
        thread = threading.Thread(target=escape)
        thread.start(); thread.join()
    """,
}

_TRICKS_IN_NAMESPACES = {
    "forks and escapes from the child": """
        pid = os.fork()
        if pid == 0:
            attempt(raw, 272, 97, 0x10000000)
            attempt(read, host['canary'])
            os._exit(0)
        os.waitpid(pid, 0)
    """,
}

_KILLED = [
    Attack(
        "calls through the 32-bit table",
        """
        import mmap
        flags, prot = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        page = mmap.mmap(-1, 4096, flags=flags, prot=prot)
        page.write(bytes.fromhex('b814000000 cd80 c3'.replace(' ', '')))  # getpid by int 0x80
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        print('trying', flush=True)
        print('ESCAPED', call(), flush=True)
        """,
        seen="trying",
        stops=(ExecutionStop.KILLED,),
        error="SIGSYS",
    ),
]

KERNEL_ATTACKS = [
    *attacks(_NETWORK | _CALLS | _TRICKS),
    *attacks(_TRICKS_IN_NAMESPACES, kinds=NAMESPACES),
    *(_KILLED if platform.machine() == "x86_64" else ()),  # others have no such table
]
