"""Everything that the distribution strowger-gateway installs, under one name.

Its packages are links to the folders of a checkout; in a wheel they are folders.
"""
