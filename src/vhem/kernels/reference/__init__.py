"""The equations in readable NumPy: the reference for tests, and the engine if nothing is compiled."""
