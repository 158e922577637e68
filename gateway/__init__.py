"""The gateway: what clients connect to, what it routes to, and the process around both."""

if __name__ != "strowger_gateway.gateway":
    raise ImportError("the name of this package is strowger_gateway.gateway")
