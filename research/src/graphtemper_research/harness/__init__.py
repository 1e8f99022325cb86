"""What every experiment shares: how it resumes, and what it leaves behind.

======================  ==========================================================================
`runner`                `Bench`, a declared evaluation, and the one function that runs it
`cells`                 finished measurements on disk, so that a run can be resumed
`frame`                 rows of measurements: group, average, put methods side by side
`layout`                declared tables, for a terminal and for Markdown
`outcome`               comparisons with published numbers and bars; JSON and picture
`provenance`            who measured a result, and how its file is written
`uses`                  which code a measurement uses
`selective`             how well confidence ranks errors
`speed`, `memory`       the table of speed, and the peak of memory
======================  ==========================================================================
"""
