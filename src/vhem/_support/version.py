"""The version of vhem, for files and reports."""

VERSION = "0.1.0"
