"""The providers' real HTTP APIs, answering in the same shapes as the embedded world."""
