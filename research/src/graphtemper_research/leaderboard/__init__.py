"""Every calibrator, every accuracy estimator and the atlas, on the same shifted graphs.

======================  ==========================================================================
`models`                the models to calibrate: SIGN, GCN, and PyG's GAT and GraphSAGE
`methods`               who competes, what they learn at the source and answer on a target
`tasks`                 what one cell measures: a graph under known shifts, or natural targets
`bench`                 all cells, in turn or several at once, and where they are kept
`standings`             means, intervals, paired differences from source-T, ranks
`summary`               the tables, the bars and the picture
`section`               the paragraph of ``docs/results.md``
======================  ==========================================================================
"""
