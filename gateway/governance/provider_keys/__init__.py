"""Keys of vendors in the processes of a gateway: a rest in one is a rest in all."""
