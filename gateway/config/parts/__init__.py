"""What parts bring to the configuration: sections of the file, checks, and what needs a restart."""
