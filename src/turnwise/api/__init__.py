"""The Python interface: what `import turnwise` offers. The same machinery as the `turnwise` command."""
