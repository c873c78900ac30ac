"""What every service is run with: terms, settings, logging, metrics, health."""
