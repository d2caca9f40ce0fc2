"""Every choice that a user can make: frozen dataclasses, one comment for each option, all checks in one place."""
