"""Every calibrator, every accuracy estimator and the atlas, on the same shifted graphs.

======================  ==========================================================================
`models`                the models to calibrate, by name
`backbones`             those that are torch modules
`methods`               the competitors: what they learn at the source and answer on a target
`tasks`                 what one cell measures: a graph under known shifts, or natural targets
`board`                 the bench: its cells, bars, tables and picture
`standings`             means, intervals, paired differences from source-T, ranks
`families`              natural families: sources and targets
`section`               its part of ``docs/results.md``
======================  ==========================================================================
"""
