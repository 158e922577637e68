"""Cloudflare Workers AI for Strowger; the adapter is in `strowger_workers_ai.adapter`."""
