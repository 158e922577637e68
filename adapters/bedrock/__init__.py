"""Amazon Bedrock: the Converse API and its embeddings."""
