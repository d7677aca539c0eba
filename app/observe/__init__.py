"""What people see of a running process: its log lines."""
