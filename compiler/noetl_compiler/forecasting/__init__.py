"""Inside of the forecast: how often each part of a graph runs, what each costs on Temporal, and what to beware of."""
