"""The equations in readable NumPy: the truth for tests, and the engine where nothing is compiled."""
