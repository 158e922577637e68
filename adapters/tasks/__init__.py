"""Forms of the tasks that are neither generation nor embeddings, shared by vendors."""
