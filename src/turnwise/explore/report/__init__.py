"""What an exploration found, for people: on the terminal, as JSON for the page, as a cassette."""
