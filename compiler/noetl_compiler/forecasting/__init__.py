"""Parts of the forecast: how often each part of a graph runs, what it costs on Temporal, and warnings."""
