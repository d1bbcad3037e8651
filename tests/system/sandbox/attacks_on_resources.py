"""Attacks on processes, memory, disk, time, output and the sandbox's own channels."""

from textwrap import dedent

from tests.system.sandbox.attack import FALLBACK, NAMESPACES, Attack, attacks
from turnwise.system.sandbox import ExecutionStop

_SIGNALS = {
    "kills every process it may": "attempt(os.kill, -1, 9)",
    "kills its parent": "attempt(os.kill, os.getppid() or 2, 9)",
    "kills the test": "attempt(os.kill, host['pid'], 9)",
    "probes the test": "attempt(os.kill, host['pid'], 0)",
    "signals a thread of the test": "attempt(raw, 234, 131, host['pid'], host['pid'], 9)",
    "opens a handle on the test": "attempt(os.pidfd_open, host['pid'])",
    "limits the test": """
        import resource
        attempt(resource.prlimit, host['pid'], resource.RLIMIT_NOFILE, (3, 3))
    """,
    "slows the test down": "attempt(os.setpriority, os.PRIO_PROCESS, host['pid'], 19)",
    "pins the test to a processor": "attempt(os.sched_setaffinity, host['pid'], {0})",
    "has the kernel signal the test": """
        import fcntl
        attempt(fcntl.fcntl, 0, fcntl.F_SETOWN, host['pid'])
    """,
}

_PROCESSES_IN_FALLBACK = {
    "forks at all": "attempt(os.fork)",
    "forks by raw clone": "attempt(raw, 56, 220, 17, 0, 0, 0, 0)",
    "outlives the zygote": "attempt(raw, 157, 167, 1, 0, 0, 0, 0)",
}

_PROCESSES_IN_NAMESPACES = {
    "starts more processes than it may": """
        count = 0
        try:
            while count < 200:
                if os.fork() == 0:
                    time.sleep(60)
                count += 1
        except OSError:
            print('ESCAPED' if count >= host['num_processes'] else 'blocked', count)
    """,
    "bombs with threads": """
        import threading
        count = 0
        try:
            while True:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
                count += 1
        except RuntimeError:
            print('ESCAPED' if count >= host['num_processes'] else 'blocked', count)
    """,
    "leaves a daemon behind": """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                import signal
                for number in range(1, 65):
                    try:
                        signal.signal(number, signal.SIG_IGN)
                    except (OSError, ValueError):
                        pass
                time.sleep(600)
            os._exit(0)
        time.sleep(0.05)
        print('blocked')
    """,
    "leaves children that hold its output open": """
        for _ in range(5):
            if os.fork() == 0:
                while True:
                    time.sleep(1)
        print('blocked')
    """,
    "leaves zombies": """
        for _ in range(6):
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
        print('blocked')
    """,
    "forks and lets both come to the end": """
        pid = os.fork()
        print('blocked')
        pid == 0
    """,
    "kills all it sees, from a child": """
        if os.fork() == 0:
            os.setsid()
            try:
                os.kill(-1, 9)
            except OSError:
                pass
            os._exit(0)
        time.sleep(0.1)
        print('blocked')
    """,
}

_PROCESSES_ENDINGS = [
    Attack(
        "bombs with forks",
        """
        try:
            while True:
                os.fork()
        except OSError as error:
            print('blocked', errno.errorcode[error.errno], flush=True)
            time.sleep(60)
        """,
        stops=(ExecutionStop.TIMEOUT, ExecutionStop.MEMORY),
        kinds=NAMESPACES,
    ),
    Attack(
        "kills itself",
        "print('blocked', flush=True)\nos.kill(os.getpid(), 9)\nos._exit(9)",
        stops=(ExecutionStop.KILLED, ExecutionStop.EXITED),
    ),
    Attack(
        "crashes",
        "print('blocked', flush=True)\nctypes.string_at(0)",
        stops=(ExecutionStop.KILLED,),
        error="SIGSEGV",
    ),
    Attack("aborts", "print('blocked', flush=True)\nos.abort()", stops=(ExecutionStop.KILLED,)),
    Attack(
        "leaves without a result",
        "print('blocked', flush=True)\nos._exit(3)",
        stops=(ExecutionStop.EXITED,),
        error="status 3",
    ),
]

_TIME = {
    "sleeps": "time.sleep(600)",
    "loops": "while True: pass",
    "blocks in C": "libc.sleep(600)",
    "ignores signals": """
        import signal
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            try:
                time.sleep(600)
            except BaseException:
                pass
    """,
    "counts for ever in one expression": "sum(x for x in iter(int, 1))",
    "waits for a thread that never ends": """
        import threading
        threading.Thread(target=time.sleep, args=(600,)).start()
    """,
    "stops itself": "raw(62, 129, os.getpid(), 19)\ntime.sleep(600)",
}

_MEMORY = {
    "allocates": "x = bytearray(1 << 34)",
    "allocates step by step": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "repeats a list": "x = [0] * (1 << 34)",
    "fills an array": "import numpy\nx = numpy.ones(1 << 31)",
    "inflates a bomb": "import zlib\nx = zlib.decompress(zlib.compress(bytes(1 << 20))) * (1 << 14)",
    "unpickles a bomb": """
        import pickle
        class Swell:
            def __reduce__(self):
                return (bytearray, (1 << 34,))
        pickle.loads(pickle.dumps(Swell()))
    """,
    "expands entities": "x = 'lol'\nfor _ in range(60): x = x * 10",
}

_BOUNDS_IN_NAMESPACES = {
    "shares memory between many processes": """
        import mmap
        def fill():
            page = mmap.mmap(-1, 100 << 20)
            return sum(page.write(bytes(1 << 20)) for _ in range(100))
        for _ in range(8):
            if os.fork() == 0:
                attempt(fill)
                os._exit(0)
        for _ in range(8):
            os.wait()
    """,
    "shares the memory of a device between many processes": """
        import mmap
        def fill(name):
            with open('/dev/' + name, 'r+b', buffering=0) as device:
                page = mmap.mmap(device.fileno(), 100 << 20)
                return sum(page.write(bytes(1 << 20)) for _ in range(100))
        for name in ('zero', 'null', 'full', 'random'):
            attempt(fill, name)
    """,
    "shares memory through files": """
        from multiprocessing import shared_memory
        blocks = []
        def fill():
            for _ in range(64):
                blocks.append(shared_memory.SharedMemory(create=True, size=3 << 20))
                with open('/dev/shm/' + blocks[-1].name, 'wb', buffering=0) as file:
                    if file.write(bytes(3 << 20)) < 3 << 20:
                        raise OSError(errno.ENOSPC, 'short')
        attempt(fill)
    """,
    "fills the disk with one file": """
        with open('/tmp/big', 'wb', buffering=0) as file:
            attempt(lambda: [file.write(bytes(1 << 20)) for _ in range(500)])
            print('ESCAPED' if file.tell() > 64 << 20 else 'blocked')
    """,
    "fills the disk with many files": """
        def fill():
            for number in range(200):
                with open(f'/tmp/{number}', 'wb', buffering=0) as file:
                    if file.write(bytes(1 << 20)) < 1 << 20:
                        raise OSError(errno.ENOSPC, 'short')
        attempt(fill)
    """,
    "fills the disk with names": "attempt(lambda: [open(f'/tmp/{n}', 'w').close() for n in range(100_000)])",
    "makes a sparse giant": "file = open('/tmp/sparse', 'wb')\nattempt(file.truncate, 1 << 40)",
}

_BOUNDS = {
    "maps more than it may": "import mmap\nattempt(mmap.mmap, -1, 1 << 40)",
    "opens too many files": "x = []\nattempt(lambda: [x.append(os.dup(0)) for _ in range(10_000)])",
    "recurses": "def f(): f()\nattempt(f)",
    "nests source": "attempt(compile, '(' * 100_000, 'x', 'eval')",
}

_BOUNDS_IN_FALLBACK = {
    "writes any file at all": "attempt(open, '/tmp/x', 'w')",
}

_BOUNDS_ENDINGS = [
    Attack(
        "allocates in many processes",
        """
        for _ in range(4):
            if os.fork() == 0:
                x = b'x' * (60 << 20)
                time.sleep(60)
        print('blocked', flush=True)
        time.sleep(60)
        """,
        stops=(ExecutionStop.MEMORY,),
        error="memory",
        kinds=NAMESPACES,
    ),
    Attack(
        "recurses past the stack",
        """
        print('blocked', flush=True)
        sys.setrecursionlimit(1 << 30)
        class A:
            def __getattr__(self, name):
                return getattr(self, name + 'x')
        A().y
        """,
        stops=(ExecutionStop.KILLED, ExecutionStop.MEMORY, ExecutionStop.TIMEOUT, ExecutionStop.NONE),
        error=" ",
    ),
]

_OUTPUT = {
    "prints for ever": "while True: print('x' * 100)",
    "prints to stderr for ever": "while True: print('x' * 100, file=sys.stderr)",
    "writes bytes for ever": "while True: os.write(1, bytes(65536))",
    "prints one giant line": "print('x' * (10 << 20))",
}

_CHANNELS = {
    "writes a result of the wrong types": """
        print('blocked', flush=True)
        for fd in range(3, 256):
            try: os.write(fd, b'{"value": [1], "value_json": "NaN", "error": 7, "is_memory": "yes"}')
            except OSError: pass
        os._exit(0)
    """,
    "prints broken text": "os.write(1, b'blocked \\xff\\xfe\\x00')\nprint('\\ud800')",
    "gives a value that does not end": "print('blocked')\nx = []\nx.append(x)\nx",
    "gives a huge value": "print('blocked')\n'x' * (4 << 20)",
}

_CHANNELS_ENDINGS = [
    Attack(
        "floods the result pipe",
        """
        print('blocked', flush=True)
        for fd in range(3, 256):
            try:
                while True: os.write(fd, b'x' * 65536)
            except OSError: pass
        os._exit(0)
        """,
        stops=(ExecutionStop.KILLED, ExecutionStop.EXITED),
        error=" ",
    ),
    Attack(
        "writes a deep result",
        """
        print('blocked', flush=True)
        for fd in range(3, 256):
            try: os.write(fd, b'[' * 60_000)
            except OSError: pass
        os._exit(0)
        """,
        stops=(ExecutionStop.EXITED,),
        error="before a result",
    ),
    Attack(
        "closes every descriptor",
        "print('blocked', flush=True)\nos.closerange(0, 256)",
        stops=(ExecutionStop.EXITED,),
        error=" ",
    ),
    Attack(
        "gives a hostile value",
        "class A:\n    def __repr__(self): raise RuntimeError('no')\nprint('blocked')\nA()",
        error="RuntimeError: no",
    ),
    Attack(
        "raises a hostile exception",
        "class E(Exception):\n    def __str__(self): raise SystemExit(0)\nprint('blocked')\nraise E()",
        error="E",
    ),
    Attack(
        "breaks the interpreter for the next one",
        """
        import builtins, json, threading
        json.dumps = json.loads = builtins.len = builtins.repr = None
        sys.modules.clear()
        os.write(1, b'blocked')
        """,
        stops=(ExecutionStop.NONE, ExecutionStop.EXITED),
        error=" ",
    ),
]


def _announced(codes: dict[str, str]) -> dict[str, str]:
    return {name: "print('blocked', flush=True)\n" + dedent(code) for name, code in codes.items()}


RESOURCE_ATTACKS = [
    *attacks(_SIGNALS | _BOUNDS | _CHANNELS),
    *attacks(_PROCESSES_IN_NAMESPACES | _BOUNDS_IN_NAMESPACES, kinds=NAMESPACES),
    *attacks(_PROCESSES_IN_FALLBACK | _BOUNDS_IN_FALLBACK, kinds=FALLBACK),
    *attacks(_announced(_TIME), stops=(ExecutionStop.TIMEOUT,), error="longer than"),
    *attacks(_announced(_MEMORY), stops=(ExecutionStop.MEMORY,), error="emory"),
    *attacks(_OUTPUT, seen="", stops=(ExecutionStop.OUTPUT,), error="printed more"),
    *_PROCESSES_ENDINGS,
    *_BOUNDS_ENDINGS,
    *_CHANNELS_ENDINGS,
]
