"""One file a provider dialect: schemas to vendor bytes and back, without I/O."""
