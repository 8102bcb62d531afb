"""The algorithms: each takes sequences or an H3M, and gives an H3M."""
