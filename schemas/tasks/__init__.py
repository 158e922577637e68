"""Tasks with one whole answer: their requests and answers, a module each."""
