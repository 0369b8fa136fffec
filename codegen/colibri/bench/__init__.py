"""How long a package's calls take on this machine, by the bench program that the package has."""
