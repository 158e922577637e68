"""What each request leaves behind: rows that a worker writes down and the store imports."""
