"""The operator's page at `/admin`: HTML made here, one style sheet, one script, nothing fetched."""
