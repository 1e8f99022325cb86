"""The benchmark of natural shifts for methods that know nothing of this library.

==========  ==================================================================================
`folder`    writes graphs, fixed splits, the list of tasks and the loader into one folder
`loader`    reads such a folder with NumPy alone; it is copied there
`scores`    scores a CSV of results and draws the table
==========  ==================================================================================
"""
