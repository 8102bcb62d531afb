"""The version of vhem, for files and reports."""

VERSION = "0.2.0"
