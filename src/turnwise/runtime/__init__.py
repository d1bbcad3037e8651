"""What every package may use: threads, HTTP, files, the terminal, the device."""
