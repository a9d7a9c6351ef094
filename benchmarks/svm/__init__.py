"""FWSVC against its peers: CPU-time ratios at the same objective and gap."""
