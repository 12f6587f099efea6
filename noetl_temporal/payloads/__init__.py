"""How messages become payloads of Temporal: encoding, signatures, encryption, and the store for large values."""
