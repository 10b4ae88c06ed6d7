"""What a test imports from its folder is not there for the next."""

import sys

from leonidas_tools.files.modules import forget_in_folder, modules_in_folders


def forget_modules_in(folder):
    for name, module in list(sys.modules.items()):
        # Not by getattr: a module with a __getattr__ of its own may warn or raise.
        found = vars(module)
        places = [found.get("__file__") or "", *(found.get("__path__") or ())]
        if any(str(place).startswith(str(folder)) for place in places):
            del sys.modules[name]
    for finder in modules_in_folders():
        if finder[1].startswith(str(folder)):
            forget_in_folder(*finder)
