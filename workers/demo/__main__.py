"""Entry point of `python -m workers.demo`, see `workers.demo.story`."""

import sys

from workers.demo.story import main

sys.exit(main())
