"""The atlas on trial: known shifts, natural ones, the paper's setting, and what it cannot see.

======================  ==========================================================================
`trial`                 a source, what every method answers on a target, and how that is scored
`cells`                 finished measurements on disk, so that a run can be taken up again
`features`              graphs by name, with features as stored or as a dense embedding
`known_shifts`          sixteen shifts, their families known to the card and unknown
`natural`               other countries, other years: shifts that nobody drew
`controls`              shifts that no unlabelled number can see, or that break the assumptions
`paper_setting`         the paper's real-graph table with one column more
`sets`                  prediction sets under the known shifts and under new class shares
`per_node`              one temperature per node under the known shifts
`class_shares`          new class shares: their estimates, and what correcting for them does
`summary`, ...          the tables, the bars and the pictures of these
======================  ==========================================================================
"""
