"""Operations that differ by device, each with a reference that runs everywhere."""
