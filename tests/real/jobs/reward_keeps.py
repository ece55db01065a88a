"""A reward function that keeps what it has seen."""

SEEN = []


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    # 3 MiB for each answer.
    SEEN.append(bytearray(b"x" * (3 << 20)))
    return float(ground_truth in solution_str)


def reward_func(queries, prompts, labels):
    """Scores one answer. OpenRLHF calls this for one answer at a time."""
    return {"rewards": compute_score("", queries[0], "#")}
