"""`strowger chat`: a conversation with a running gateway over each of its chat APIs."""
