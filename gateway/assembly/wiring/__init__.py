"""Build the upstreams and the routes of one configuration generation."""
