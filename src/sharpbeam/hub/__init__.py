"""Models by name: `names` are what users write, `registries` say which files a name means, `download` and `archives`
bring them here, `cache` keeps the converted models.
"""
