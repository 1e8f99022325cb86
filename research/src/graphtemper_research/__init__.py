"""Research beside graphtemper: the paper's experiments, benches, the leaderboard, the explorer."""
