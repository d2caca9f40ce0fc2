"""`python -m sharpbeam`: the command line."""

import sys

from sharpbeam.cli.main import main

sys.exit(main())
