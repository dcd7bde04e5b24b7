# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures to sequences: one position per pixel in raster order, as real values or as grey-level tokens.

Travels with a checkpoint, so that raw pictures meet the model as its training data did. Axes: B batch, L length
(height x width), C channels.
"""

import torch
from transformers.image_processing_utils import BaseImageProcessor, BatchFeature
from transformers.processing_utils import ImagesKwargs
from transformers.utils import requires_backends

# filters of Pillow, by the numbers of its enumeration
RESAMPLING = {"bilinear": 2, "box": 4}
FITS = (*RESAMPLING, "frame")


class LongSeqImageKwargs(ImagesKwargs, total=False):
    """Settings that `from_pretrained` may override."""

    height: int
    width: int
    num_channels: int
    value_range: list[float]
    fit: str
    return_tokens: bool


class LongSeqImageProcessor(BaseImageProcessor):
    """Turns pictures into `input_values` (B, L, C) float32, or into `input_ids` (B, L).

    Args:
        height: Rows of pixels that the model was trained on; other sizes are fitted to it.
        width: Pixels in a row.
        num_channels: 1 (grey) or 3 (red, green, blue).
        value_range: Where grey levels 0 and 255 end up.
        fit: How another size becomes this one: "bilinear", "box" (means of areas), or "frame" (a smaller picture goes
            to the middle of a black one; a larger one is resized).
        return_tokens: Grey levels 0..255 as `input_ids`, for models of tokens.
    """

    model_input_names = ["input_values"]
    valid_kwargs = LongSeqImageKwargs

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        num_channels: int = 1,
        value_range: list[float] | tuple[float, float] = (-1.0, 1.0),
        fit: str = "bilinear",
        return_tokens: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if num_channels not in (1, 3) or (return_tokens and num_channels != 1):
            raise ValueError(
                f"num_channels is {num_channels} and return_tokens {return_tokens}; use 1 (grey), or 3 with values."
            )
        if fit not in FITS:
            raise ValueError(f"fit is {fit!r}; choose one of {', '.join(FITS)}.")
        self.height, self.width, self.num_channels = height, width, num_channels
        self.value_range = [float(end) for end in value_range]
        self.fit = fit
        self.return_tokens = return_tokens

    def __call__(self, images, return_tensors: str | None = None, **kwargs) -> BatchFeature:
        return self.preprocess(images, return_tensors=return_tensors)

    def preprocess(self, images, return_tensors: str | None = None, **kwargs) -> BatchFeature:
        """Encode pictures.

        Args:
            images: A picture or a list of them: Pillow images, or arrays or tensors of levels 0..255, floats 0..1 or
                booleans (black and white), of shape (H, W), (H, W, channels) or (channels, H, W).
            return_tensors: "pt" or "np"; None gives lists.
        """
        requires_backends(self, ["vision"])
        is_batch = isinstance(images, (list, tuple)) or getattr(images, "ndim", 0) == 4
        levels_BLC = torch.stack([self.grey_levels(image) for image in (images if is_batch else [images])])
        if self.return_tokens:
            data = {"input_ids": levels_BLC[..., 0].long()}
        else:
            low, high = self.value_range
            data = {"input_values": (low + levels_BLC.double() * ((high - low) / 255.0)).float()}
        if return_tensors is None:
            return BatchFeature({name: tensor.tolist() for name, tensor in data.items()})
        data = data if return_tensors == "pt" else {name: tensor.numpy() for name, tensor in data.items()}
        return BatchFeature(data, tensor_type=return_tensors)

    def grey_levels(self, image) -> torch.Tensor:
        """Levels 0..255 (L, C) in uint8 of one picture, in the size and the colours of the model."""
        image = image if hasattr(image, "convert") else as_pillow(image)
        if image.mode[0] in "IF":  # converted, all levels above 255 would be white
            raise ValueError(f"a picture has more than 8 bits a pixel (mode {image.mode}); give it with 8 bits.")
        image = image.convert("L" if self.num_channels == 1 else "RGB")
        wanted = (self.width, self.height)
        if image.size != wanted:
            if self.fit == "frame" and image.width <= self.width and image.height <= self.height:
                # cropping beyond the edges fills with black
                left, top = (self.width - image.width) // 2, (self.height - image.height) // 2
                image = image.crop((-left, -top, self.width - left, self.height - top))
            else:
                image = image.resize(wanted, RESAMPLING.get(self.fit, RESAMPLING["bilinear"]))
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return pixels.view(self.height * self.width, self.num_channels)


def as_pillow(image):
    """A Pillow image of an array or a tensor."""
    from PIL import Image

    pixels = torch.as_tensor(image)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[-1] not in (1, 3):
        pixels = pixels.permute(1, 2, 0)
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[-1] not in (1, 3)) or not pixels.numel():
        raise ValueError(
            f"a picture has shape {tuple(pixels.shape)}; give (H, W), (H, W, channels) or (channels, H, W)."
        )
    if pixels.dtype == torch.bool:
        pixels = pixels * 255
    # the types of integers that torch can compare are fewer than those it can hold
    pixels, highest = (pixels, 1) if pixels.is_floating_point() else (pixels.to(torch.int64), 255)
    if not (pixels.min() >= 0 and pixels.max() <= highest):  # NaN is not, either
        kind = "floats" if pixels.is_floating_point() else "integers"
        raise ValueError(f"a picture of {kind} holds values outside 0..{highest}; give 0..1, or levels 0..255.")
    if pixels.is_floating_point():
        pixels = (pixels * 255).round()
    pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
    return Image.fromarray(pixels.to(torch.uint8).numpy(force=True))


__all__ = ["LongSeqImageProcessor"]
