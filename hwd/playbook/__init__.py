"""Playbooks: experiments in YAML, run step by step."""
