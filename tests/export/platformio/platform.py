"""PlatformIO wants the class of a platform, named after it."""

from platformio.public import PlatformBase


class Stand_inPlatform(PlatformBase):
    """Nothing of its own."""
