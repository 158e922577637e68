"""The vocabulary that all packages share: requests, events, answers, errors."""

if __name__ != "strowger_gateway.schemas":
    raise ImportError("the name of this package is strowger_gateway.schemas")
