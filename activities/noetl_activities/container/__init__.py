"""The tool container."""
