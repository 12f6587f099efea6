"""A deterministic simulation of whole runs: random playbooks, a random world, and what must hold in all of them."""
