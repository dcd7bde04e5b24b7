from toy_training import tiny, toy_tasks  # noqa: F401  fixtures
