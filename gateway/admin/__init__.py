"""The operator's interface, `/admin`: behind a key of its own, and off without one."""
