"""Safe access to what lies outside the process: files, network, ranks, the sandbox, threads, the terminal."""
