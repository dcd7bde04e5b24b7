# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of the CNN: gated convolutions whose dilation grows with the layers."""

from huggingface_hub.dataclasses import strict

from .configuration_longseq import LongSeqConfig, require_at_least


@strict
class CNNConfig(LongSeqConfig):
    """Gated dilated convolutions (van den Oord et al., "WaveNet", 2016; Bo et al., "Revisiting
    Convolution Architecture in the Realm of DNA Foundation Models", 2025). Shared fields are described in
    `LongSeqConfig`.

    Args:
        kernel_size: K, odd: taps of a bidirectional layer. A causal one has those of the present and the past.
        dilation_growth: distance between neighbouring taps, times this from layer to layer, beginning with 1.
        max_dilation: where it stops growing; None for nowhere.

    Example:
        >>> CNNConfig(num_hidden_layers=4, bidirectional=True).receptive_field  # 1 + 2 + 4 + 8 on either side
        (15, 15)
    """

    model_type = "longseq_cnn"

    kernel_size: int = 3
    dilation_growth: int = 2
    max_dilation: int | None = None

    def dilation(self, layer_idx: int) -> int:
        """Distance between the taps of a layer, in positions."""
        grown = self.dilation_growth**layer_idx
        return grown if self.max_dilation is None else min(grown, self.max_dilation)

    @property
    def receptive_field(self) -> tuple[int, int]:
        """How many positions before and after its own an output sees."""
        reach = self.kernel_size // 2 * sum(self.dilation(layer_idx) for layer_idx in range(self.num_hidden_layers))
        return reach, reach if self.bidirectional else 0

    def validate_architecture(self) -> None:
        super().validate_architecture()
        if self.kernel_size < 3 or self.kernel_size % 2 == 0:
            raise ValueError(f"CNNConfig.kernel_size is {self.kernel_size}; give an odd number of at least 3.")
        require_at_least(self, "dilation_growth", 1)
        require_at_least(self, "max_dilation", 1)


__all__ = ["CNNConfig"]
