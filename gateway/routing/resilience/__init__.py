"""Circuit breakers, retry budgets and load."""
