"""Build the program as one object, for the test to link with a start-up."""

from SCons.Script import Default, DefaultEnvironment

environment = DefaultEnvironment()
processor = ["-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
tool = "arm-none-eabi-gcc"
environment.Replace(CC=tool, CXX=tool, AS=tool, LINK=tool, AR=f"{tool}-ar", RANLIB=f"{tool}-ranlib", PROGSUFFIX=".o")
environment.Append(
    CCFLAGS=["-Os", "-ffunction-sections", "-fdata-sections", *processor],
    CFLAGS=["-std=gnu11"],
    LINKFLAGS=["-r", "-nostdlib", *processor],
)
Default(environment.BuildProgram())
