"""Which experts a model can do without, on the user's data: what each is worth, what goes, and what that costs."""
