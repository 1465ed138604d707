"""Agents on hosts over SSH: deployed, upgraded, examined, removed."""
