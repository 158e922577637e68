"""What operators see: `/admin` and explanations of routes."""
