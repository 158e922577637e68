"""Texts of settings files, changed at single places: comments and all other settings stay."""
