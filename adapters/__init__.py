"""One folder per provider dialect: translates schemas to vendor bytes and back, without I/O."""

if __name__ != "strowger_gateway.adapters":
    raise ImportError("the name of this package is strowger_gateway.adapters")
