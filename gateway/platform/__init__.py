"""What every wing stands on: clock, background work, turns of the event loop, fair shares."""
