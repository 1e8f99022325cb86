"""What people look at: figures and pages. Computing happens elsewhere."""
