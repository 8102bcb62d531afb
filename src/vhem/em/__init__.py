"""EM: the loop, starts, limits and progress."""
