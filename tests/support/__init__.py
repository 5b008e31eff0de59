"""Helpers that the integration tests, the crash tests and the demo share: the daemon, a raw S3 client, checksums."""
