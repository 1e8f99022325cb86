import numpy as np

from graphtemper import csbm
from graphtemper.graph.neighbourhoods import ball
from graphtemper.graph.operators import adjacency


def test_a_ball_holds_the_nodes_that_powers_of_the_matrix_reach():
    matrix = adjacency(csbm.sample(300, degree=3, homophily=0.8, snr=1.0, seed=1))
    centre = np.array([4, 17])
    reached = np.zeros(300)
    reached[centre] = 1.0
    for radius in range(4):
        assert ball(matrix, centre, radius).tolist() == np.flatnonzero(reached).tolist()
        reached = reached + matrix @ reached
