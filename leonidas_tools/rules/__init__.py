"""Which calls are allowed, denied, recorded, or asked about: rules, and the engine that reads them.

Nothing here runs a call; the one place that holds calls to the rules is
`leonidas_tools.policies.approval`.
"""
