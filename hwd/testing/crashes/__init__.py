"""Crashes of the real daemon: it dies at the boundaries of its journal and at random, and is looked at from outside."""
