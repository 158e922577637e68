"""The page at `/admin`: server-rendered HTML, one style sheet, one script, no external files."""
