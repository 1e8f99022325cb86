"""The explorer: the paper's theory with sliders, as one page, and a local server that simulates."""
