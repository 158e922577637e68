"""Local engine processes: started, watched, restarted and stopped."""
