"""The Databricks surface."""
