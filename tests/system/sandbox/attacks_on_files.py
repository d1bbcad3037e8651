"""Attacks on the host's files, environment and memory."""

from tests.system.sandbox.attack import NAMESPACES, attacks

_READS = {
    "a file in the host's tmp": "attempt(read, host['canary'])",
    "a file in the user's home": "attempt(read, host['home_canary'])",
    "the password file": "attempt(read, '/etc/passwd')",
    "the shadow file": "attempt(read, '/etc/shadow')",
    "the machine id": "attempt(read, '/etc/machine-id')",
    "the project's own source": "attempt(read, host['project'] + '/pyproject.toml')",
    "the test's interpreter link": "attempt(os.listdir, host['project'] + '/.venv')",
    "/root": "attempt(os.listdir, '/root')",
    "/home": "attempt(os.listdir, '/home')",
    "/etc": "attempt(os.listdir, '/etc')",
    "/var": "attempt(os.listdir, '/var/log')",
    "/run": "attempt(os.listdir, '/run')",
    "/sys": "attempt(os.listdir, '/sys')",
    # not a listing of /usr/bin: a Python that is installed there must be seen there
    "system programs": """
        for name in ('env', 'ls', 'bash'):
            attempt(open, '/usr/bin/' + name, 'rb')
    """,
    "a path with dots": "attempt(read, '/usr/lib/../../../../..' + host['canary'])",
    "the canary by raw openat2": """
        attempt(raw, 437, 437, -100, host['canary'].encode(), bytes(24), 24)
    """,
    "its own environment through proc": "attempt(read, '/proc/self/environ')",
    "its own memory map": "attempt(read, '/proc/self/maps')",
    "the first process's root": "attempt(os.listdir, '/proc/1/root/')",
    "its parent's working directory": "attempt(os.listdir, f'/proc/{os.getppid()}/cwd/')",
    "the test's environment": "attempt(read, f\"/proc/{host['pid']}/environ\")",
    "the test's command line": "attempt(read, f\"/proc/{host['pid']}/cmdline\")",
    "kernel settings": "attempt(read, '/proc/sys/kernel/random/boot_id')",
    "mounts": "attempt(read, '/proc/self/mountinfo')",
    "physical memory": "attempt(read, '/dev/mem')",
    "the kernel log device": "attempt(read, '/dev/kmsg')",
    "the terminal": "attempt(read, '/dev/tty')",
    "disks": """
        for name in ('vda', 'sda', 'nvme0n1', 'dm-0'):
            attempt(read, '/dev/' + name)
    """,
}

_WRITES = {
    "the canary": "attempt(open, host['canary'], 'w')",
    "a new file on the host": "attempt(open, os.path.dirname(host['canary']) + '/new', 'w')",
    "a stdlib module": "import json\nattempt(open, json.__file__, 'w')",
    "a library": "attempt(open, '/usr/lib/x', 'w')",
    "a package": "import numpy\nattempt(open, numpy.__file__, 'a')",
    "the interpreter": "attempt(open, sys.executable, 'r+b')",
    "the sandbox's own code": """
        found = [m.__file__ for n, m in sys.modules.items() if n.startswith('inside') and m.__file__]
        for path in found:
            attempt(open, path, 'a')
    """,
    "a bytecode cache": """
        import json
        attempt(open, os.path.dirname(json.__file__) + '/__pycache__/x.pyc', 'w')
    """,
    "the root directory": "attempt(os.mkdir, '/mine')",
    "kernel settings": "attempt(open, '/proc/sys/kernel/core_pattern', 'w')",
    "its own OOM score": "attempt(open, '/proc/self/oom_score_adj', 'w')",
}

_CHANGES = {
    "remove": "attempt(os.unlink, host['canary'])",
    "rename": "attempt(os.rename, host['canary'], host['canary'] + '2')",
    "truncate": "attempt(os.truncate, host['canary'], 0)",
    "chmod": "attempt(os.chmod, host['canary'], 0o777)",
    "chown": "attempt(os.chown, host['canary'], os.getuid(), os.getgid())",
    "touch": "attempt(os.utime, host['canary'], (1, 1))",
    "tag": "attempt(os.setxattr, host['canary'], 'user.x', b'1')",
    "link": "attempt(os.link, host['canary'], '/tmp/hard')",
    "remove a stdlib module": "import json\nattempt(os.unlink, json.__file__)",
    "chmod a stdlib module": "import json\nattempt(os.chmod, json.__file__, 0o777)",
}

_TRICKS_IN_NAMESPACES = {
    "follows a symlink it made to the canary": """
        os.symlink(host['canary'], '/tmp/link')
        attempt(read, '/tmp/link')
    """,
    "swaps a directory for a symlink": """
        os.mkdir('/tmp/d'); os.rmdir('/tmp/d'); os.symlink(os.path.dirname(host['canary']), '/tmp/d')
        attempt(read, '/tmp/d/' + os.path.basename(host['canary']))
    """,
    "hides a file from the next one": "open('/tmp/left', 'w').write('x')\nprint('blocked')",
}

_TRICKS = {
    "makes a symlink next to the canary": "attempt(os.symlink, '/', host['canary'] + '-link')",
    "walks out through inherited descriptors": """
        for fd in range(1024):
            for way in ('..', '../..', '../../../../../../..'):
                try:
                    inner = os.open(way + host['canary'], os.O_RDONLY, dir_fd=fd)
                    print('ESCAPED', os.read(inner, 100))
                except OSError:
                    pass
        print('blocked')
    """,
    "lists inherited directories": """
        for fd in range(1024):
            try:
                print('ESCAPED', fd, os.listdir(fd)[:5])
            except OSError:
                pass
        print('blocked')
    """,
    "reads what it inherited": """
        import stat
        for fd in range(3, 1024):
            try:
                mode = os.fstat(fd).st_mode
            except OSError:
                continue
            if stat.S_ISSOCK(mode) or stat.S_ISREG(mode) or stat.S_ISCHR(mode):
                print('ESCAPED', fd, oct(mode))
        print('blocked')
    """,
    "opens by handle": "attempt(raw, 304, 265, -100, bytes(64), 0)",
    "changes its root": "attempt(os.chroot, '/')",
    "makes a disk node": "attempt(os.mknod, '/tmp/disk', 0o660 | 0o060000, os.makedev(254, 0))",
    "sees an environment": """
        environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')
        first = environ[0] if environ else None
        print('ESCAPED' if os.environ or first else 'blocked', dict(os.environ), first)
    """,
    "is alone in proc": "attempt(lambda: [p for p in os.listdir('/proc') if p.isdigit()][0])",
    "sees no host directories": """
        try:
            names = set(os.listdir('/'))
        except PermissionError:
            names = set()
        extra = names - {'dev', 'lib', 'lib64', 'proc', 'python', 'sandbox', 'tmp', 'usr', 'nix'}
        print('ESCAPED' if extra else 'blocked', extra)
    """,
    "watches the host's files": "attempt(lambda: raw(254, 27, raw(294, 26, 0), host['canary'].encode(), 2))",
    "unpickles a command": """
        import pickle
        class Bomb:
            def __reduce__(self):
                return (os.execv, ('/bin/sh', ['sh', '-c', 'id']))
        attempt(pickle.loads, pickle.dumps(Bomb()))
    """,
}

FILE_ATTACKS = [
    *attacks({f"reads {name}": code for name, code in _READS.items()}),
    *attacks({f"writes {name}": code for name, code in _WRITES.items()}),
    *attacks({f"tries to {name}": code for name, code in _CHANGES.items()}),
    *attacks(_TRICKS),
    *attacks(_TRICKS_IN_NAMESPACES, kinds=NAMESPACES),
]
