"""Rules that allow, deny, record or ask about calls, and the engine that evaluates them.

Nothing here runs a call. The only place that enforces the rules is
`leonidas_tools.policies.approval`.
"""
