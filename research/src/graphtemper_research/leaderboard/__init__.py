"""Every calibrator, every accuracy estimator and the atlas, on the same shifted graphs.

======================  ==========================================================================
`models`                the models to calibrate: SIGN, GCN, and PyG's GAT and GraphSAGE
`methods`               the competitors: what they learn at the source and answer on a target
`tasks`                 what one cell measures: a graph under known shifts, or natural targets
`board`                 the bench: its cells, bars, tables and picture
`standings`             means, intervals, paired differences from source-T, ranks
`section`               the paragraph of ``docs/results.md``
`calibrator_table`      the table of ``docs/calibrators.md``
======================  ==========================================================================
"""
