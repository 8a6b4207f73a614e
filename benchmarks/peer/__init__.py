"""The trainer beside TRL's GRPOTrainer: the same model, task, batch and loss in each, measured in the same way."""
