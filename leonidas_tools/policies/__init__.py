"""Policies: one file each, independent of each other.

A policy is `async (call, run) -> result`: it may refuse the call, change it, run it again, or run
something else. `leonidas_tools.policies.order` lists all of them, outermost first.
"""
