"""The studies of the paper, each one command: `vhem experiment NAME`."""
