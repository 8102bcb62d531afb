"""`python -m vhem.cli`: the command, where it is not on the path."""

from vhem.cli.main import app

if __name__ == "__main__":
    app(prog_name="vhem")
