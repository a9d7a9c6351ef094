"""Meta-training: losses, gradients, rollouts and the trainer."""
