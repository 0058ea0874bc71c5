"""What this machine has."""

import functools
import sys
import warnings


@functools.cache
def has_gpu():
    """Say whether pycuda and CuPy are installed and see a device; tests marked ``gpu`` skip without one."""
    if "tests.simcuda.plugin" in sys.modules:  # what they would see is simulated
        return False
    try:
        with warnings.catch_warnings():  # of what CuPy thinks of its installation, and pycuda of a missing driver
            warnings.simplefilter("ignore")
            import cupy  # noqa: F401
            import pycuda.driver as driver

        driver.init()
        return driver.Device.count() > 0
    except ImportError:
        return False
    except Exception as error:  # the driver's own error class exists only where pycuda does
        if type(error).__module__.startswith("pycuda"):
            return False
        raise
