"""What may stand around a call; one file, one policy, none knows another.

A policy is `async (call, run) -> result`: it may refuse the call, change it, run it again, or run
something else. Their order stands in `leonidas_tools.runtime.compiler`, once.
"""
