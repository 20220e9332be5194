"""One flat file per method."""
