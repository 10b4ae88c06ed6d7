"""Policies: one file each, none knows another.

A policy is `async (call, run) -> result`: it may refuse the call, change it, run it again, or run
something else. `leonidas_tools.policies.order` has all of them, outermost first.
"""
