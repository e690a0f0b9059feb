"""Template state: captured once, coded, packed, and read back by every edit."""
