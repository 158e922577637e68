"""What operators see of the traffic: the access log, metrics."""
