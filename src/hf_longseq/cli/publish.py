# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq publish`: put a run or a converted checkpoint on the Hub, checked and with a card of its records."""

from pathlib import Path

from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError


def run(argv: list[str]) -> None:
    """Parse, publish, print the address and how to load it."""
    parser = Parser(prog="hf-longseq publish", description="Publish a finished run on the Hugging Face Hub.")
    parser.add_argument("run", help="folder of a finished run, a conversion, or a comparison")
    parser.add_argument("--repo_id", required=True, help="organisation/name")
    parser.add_argument("--private", action="store_true", help="make a new repository private; refuse a public one")
    parser.add_argument("--revision", help="branch to publish on [main]")
    parser.add_argument("--dry_run", action="store_true", help="build and check, upload nothing")
    parser.add_argument("--output_dir", help="keep the built folder here")
    parser.add_argument("--collection", help="title of a collection to add the repository to; takes a comparison")
    parser.add_argument("--license", default="apache-2.0", help="of the weights, as the Hub names it [apache-2.0]")
    options = parser.parse(argv)
    whole = (Path(options.run) / "plan.json").is_file()
    if whole and (options.collection is None or options.revision is not None):
        raise HfLongSeqError(
            f"{options.run} is a whole comparison: give --collection TITLE and no --revision, or name one of its runs."
        )

    from hf_longseq.hub.publish import publish, publish_comparison
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    shared = {name: getattr(options, name) for name in ("private", "dry_run", "output_dir", "license")}
    if whole:
        done = publish_comparison(options.run, options.repo_id, options.collection, **shared)
    else:
        more = {"revision": options.revision, "collection": options.collection}
        done = [publish(options.run, options.repo_id, **shared, **more)]
    for publication in done:
        print(str(publication).strip())
