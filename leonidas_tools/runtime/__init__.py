"""Run calls: `runtime` is what everything stands on, `executor` what every call goes through."""
