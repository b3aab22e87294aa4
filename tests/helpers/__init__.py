"""What many tests need: small crowds, small files, processes to run."""
