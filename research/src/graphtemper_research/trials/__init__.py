"""Evaluations of the atlas: known shifts, natural ones, the paper's setting, and its limits.

==========================  ======================================================================
`trial`                     a source, every method's answer on a target, and the scores
`cases`                     which graphs, models and splits a request means
`graph_names`               graphs by name, with features as stored or as a dense embedding
`shifted_targets`           the shifts of the evaluations: sixteen, and four of the homophily
`share_targets`             targets with new class shares
`hidden_shifts`             shifts that no unlabelled number shows
`pairs`                     sources and targets that differ by nature
`private_cards`             what a privacy budget costs under the known shifts
`situations`                targets with a known truth: what a stranger's graph may be
`exam`                      verdicts and intervals in these situations
`known_shifts`              these shifts, with and without their family in the card
`natural`                   families of graphs from several places or times
`decision_metrics`          precision, recall and F1 without labels
`label_budgets`             fifty and two hundred labels under natural shifts
`label_sessions`            simulated labelling sessions under natural shifts
`negative_controls`         what the atlas says about hidden shifts
`paper_setting`             the paper's real-graph table with the atlas as one more column
`prediction_sets`           prediction sets under known shifts and new class shares
`per_node_temperatures`     one temperature per node under the known shifts
`class_share_shifts`        new class shares: their estimates, and the effect of a correction
`monitoring`                a model watched over time
==========================  ======================================================================

From `known_shifts` on, each declares a `graphtemper_research.harness.runner.Bench`.
"""
