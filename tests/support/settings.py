"""Settings for tests that are about fast paths: all on, whatever ``TAGLOOM_OFF`` says, and from the first run on."""

from tagloom.base.settings import FAST_PATHS, Settings

ON = Settings(**{name: Settings.__dataclass_fields__[name].default for name in FAST_PATHS}, llvm_seconds=0)

# Those of tests that look at what the step machine does: there are no native programs.
MACHINE = Settings(straight=False, cluster=False)
