"""Call providers and local engines through one protocol of two methods: `generate` and `embed`."""
