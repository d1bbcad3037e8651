"""Code of the kinds that models usually write works behind both kinds of wall."""

import textwrap

from tests.system.sandbox.boxes import both_kinds, sandboxed
from turnwise.system.sandbox import Kind

ORDINARY = {
    "modules": """
        import csv, datetime, decimal, io, json, math, re, statistics
        rows = list(csv.DictReader(io.StringIO('a,b\\n1,2')))
        assert json.loads(json.dumps({'x': [1.5]})) == {'x': [1.5]}
        assert re.findall('[0-9]+', 'a1b22') == ['1', '22']
        assert datetime.date.fromisoformat('2024-02-29').year == 2024
        statistics.mean([1, 2, 3]) + math.sqrt(4) + int(rows[0]['b']) + float(decimal.Decimal(1))
    """,
    "threads": """
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            print(sum(pool.map(abs, range(-10, 0))))
    """,
    "asyncio": """
        import asyncio
        async def main():
            return await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(3)))
        print(asyncio.run(main()))
    """,
    "output thrown away": """
        import contextlib, os
        with open(os.devnull, 'w') as null, contextlib.redirect_stdout(null):
            print('unseen')
    """,
    "terminal questions": """
        import shutil, sys
        print(sys.stdout.isatty(), shutil.get_terminal_size())
    """,
    "private memory maps": """
        import mmap
        page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page[:3] = b'abc'
    """,
}
ORDINARY_WITH_FILES = {
    "files": """
        import gzip, os, pathlib, shutil, tempfile
        pathlib.Path('/tmp/a.txt').write_text('hello')
        shutil.copyfile('/tmp/a.txt', '/tmp/b.txt')
        shutil.copytree(tempfile.mkdtemp(), '/tmp/tree')
        with gzip.open('/tmp/a.gz', 'wt') as file:
            file.write('x')
        with open('/tmp/b.txt') as file:
            os.fsync(file.fileno())
            assert file.read() == 'hello'
    """,
    "sqlite": """
        import sqlite3
        for path in (':memory:', '/tmp/a.db'):
            with sqlite3.connect(path) as database, sqlite3.connect('/tmp/a.db') as other:
                database.execute('create table t (x)')
                database.execute('insert into t values (1)')
                database.commit()
                assert database.execute('select x from t').fetchall() == [(1,)]
            other.close()
    """,
    "mapped files": """
        import mmap
        with open('/tmp/a', 'w+b') as file:
            file.write(bytes(4096))
            file.flush()
            mmap.mmap(file.fileno(), 4096)[:3] = b'abc'
            file.seek(0)
            assert file.read(3) == b'abc'
    """,
    "processes": """
        import multiprocessing, os
        with multiprocessing.Pool(3) as pool:
            assert pool.map(abs, range(-3, 0)) == [3, 2, 1]
        shared, lock = multiprocessing.Array('i', 1000), multiprocessing.Lock()
        def add():
            for n in range(1000):
                with lock:
                    shared[n] += 1
        workers = [multiprocessing.Process(target=add) for _ in range(3)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
        assert set(shared) == {3}
        queue = multiprocessing.Queue()
        queue.put('x')
        assert queue.get() == 'x'
    """,
}


@both_kinds
async def test_ordinary_code_works(kind: Kind) -> None:
    codes = ORDINARY | (ORDINARY_WITH_FILES if kind is Kind.BUBBLEWRAP else {})
    async with sandboxed(kind) as sandbox:
        for name, code in codes.items():
            assert (await sandbox.run(textwrap.dedent(code))).error == "", name
