"""`vhem app`: the whole way from a table to a report in a browser, for people who do not program.

A local server, which uses the command: a run is a child process `vhem …`, and its folder is what the command leaves
behind. Nothing here computes a result.
"""
