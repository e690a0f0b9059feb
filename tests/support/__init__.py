"""What several tests share: tiny checkpoints, one comparison."""
