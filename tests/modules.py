"""What a test imports from its folder is not there for the next."""

import sys


def forget_modules_in(folder):
    for name, module in list(sys.modules.items()):
        # Not by getattr: a module with a __getattr__ of its own may warn or raise.
        found = vars(module)
        places = [found.get("__file__") or "", *(found.get("__path__") or ())]
        if any(str(place).startswith(str(folder)) for place in places):
            del sys.modules[name]
