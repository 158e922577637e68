"""`providers[].engines`: checks of the section, and its expansion into replicas."""
