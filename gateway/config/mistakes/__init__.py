"""Mistakes in the file, in the words of who writes it: syntax, units, files of other programs."""
