"""Starts turnwise_run.py: `python turnwise_side.py sync|async`; LONG_RACE_TERMS names the terms' file.

vLLM's process imports the script that started it, so this one imports little, like the `turnwise` command.
"""

import asyncio
import sys

if __name__ == "__main__":
    from turnwise_run import main

    asyncio.run(main(sys.argv[1]))
