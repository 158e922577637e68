"""What a feature is: one object with a leader's side and a side in each serving process."""
