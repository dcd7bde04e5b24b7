# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`hf-longseq convert`: a checkpoint of the official code becomes one that `from_pretrained` opens."""

from hf_longseq.cli.options import Parser


def run(argv: list[str]) -> None:
    """Parse, convert, say what was found and what was assumed."""
    parser = Parser(prog="hf-longseq convert", description="Convert a checkpoint of the official code.")
    parser.add_argument("checkpoint", help=".ckpt of Lightning, state dict of torch.save, or .safetensors file")
    parser.add_argument("--output_dir", required=True, help="new folder for the converted model")
    parser.add_argument("--pooling", choices=("mean", "max", "first", "last"), help="of the classifier [mean]")
    parser.add_argument("--positions", choices=("rotary", "sinusoidal", "none"), help="of a Transformer")
    parser.add_argument("--num_attention_heads", type=int, help="of a Transformer [seen with rotary positions]")
    parser.add_argument("--activation", help="of feed-forward layers, as transformers names it [gelu]")
    parser.add_argument("--classifier_activation", help="of a two-layer classifier [relu; gelu for pairs]")
    parser.add_argument("--causal", action="store_true", help="the Transformer's attention looks back only")
    parser.add_argument("--attention_window", type=int, help="block length of block-local attention")
    parser.add_argument("--head", choices=("denoising", "classification"), help="what the decoder does [by its size]")
    parser.add_argument("--mask_column", choices=("yes", "no"), help="is the last real-valued input the mask flag?")
    options = vars(parser.parse(argv))

    from hf_longseq.hub.convert import ConversionOptions, convert_checkpoint
    from hf_longseq.training.progress import quiet_libraries

    quiet_libraries()
    checkpoint, output_dir = options.pop("checkpoint"), options.pop("output_dir")
    if options["mask_column"] is not None:
        options["mask_column"] = options["mask_column"] == "yes"
    conversion = convert_checkpoint(checkpoint, output_dir, ConversionOptions(**options))
    config = conversion.config
    print(
        f"{config.model_type}: {config.num_hidden_layers} blocks of {config.hidden_size} channels, "
        f"{config.norm_position}-norm ({config.norm}), {'bidirectional' if config.bidirectional else 'causal'}"
    )
    for assumption in conversion.assumptions:
        print(f"assumed: {assumption}")
    opened = conversion.head if conversion.head != "Model" else ""
    print(f"opens as AutoModel{opened}: {output_dir}")
