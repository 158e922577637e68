"""One folder per provider dialect: translates schemas to vendor bytes and back, without I/O."""
