"""Devices of a session."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "session_devices": "DeviceAttributes",
}
