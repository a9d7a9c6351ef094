"""Past one machine: low-rank softmax regression on row shards, over torch.distributed."""
