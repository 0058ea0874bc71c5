"""Settings for tests that are about fast paths: all on, whatever ``TAGLOOM_OFF`` says, and from the first run on."""

from tagloom.base.settings import Settings

from tests.support.fast_path_switches import all_values

ON = Settings(**all_values(), llvm_seconds=0)

# Those of tests that look at what the step machine does: there are no native programs.
MACHINE = Settings(straight=False, cluster=False)
