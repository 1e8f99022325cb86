"""The experiments behind graphtemper: the paper, benches, the leaderboard, the explorer."""
