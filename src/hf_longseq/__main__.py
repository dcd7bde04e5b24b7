# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`python -m hf_longseq` is `hf-longseq`."""

import sys

from hf_longseq.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
