"""Inside of the catalog: what one playbook needs and calls, and the ways that calls lead."""
