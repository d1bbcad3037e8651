"""One call of a tool: its arguments, results, gate and cassette."""
